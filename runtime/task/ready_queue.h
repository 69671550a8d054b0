// The operations that could run now on one device, highest priority first.
//
// Priority is a key, compared part by part, smaller first; equal keys keep the order of arrival. Threads: one, the device
// loop's. Limits: as many entries as tasks in flight, which credits bound.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <vector>

namespace troupe::task {

// What an operation is for, in order of urgency. Training's order on a device is 1F1B by this alone: what frees memory goes first.
enum class Urgency : std::int32_t { kUpdate, kWeightGradient, kInputGradient, kForward, kEvaluate };

struct Key {
  Urgency urgency = Urgency::kForward;
  std::int64_t step = 0;
  std::int32_t micro_batch = 0;
  std::int32_t position = 0;  // within the pass, or of the block

  friend auto operator<=>(const Key&, const Key&) = default;
};

class TaskRun;

class ReadyQueue {
 public:
  void push(const Key& key, TaskRun* run);
  TaskRun* pop();  // null when empty
  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }

 private:
  struct Entry {
    Key key;
    std::uint64_t arrival;
    TaskRun* run;
  };
  static bool later(const Entry& a, const Entry& b);

  std::vector<Entry> heap_;
  std::uint64_t arrivals_ = 0;
};

}  // namespace troupe::task
