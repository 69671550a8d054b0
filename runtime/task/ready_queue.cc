#include "runtime/task/ready_queue.h"

#include <algorithm>

namespace troupe::task {

bool ReadyQueue::later(const Entry& a, const Entry& b) {
  const auto order = a.key <=> b.key;
  return order != 0 ? order > 0 : a.arrival > b.arrival;
}

void ReadyQueue::push(const Key& key, TaskRun* run) {
  heap_.push_back({key, arrivals_++, run});
  std::push_heap(heap_.begin(), heap_.end(), later);
}

TaskRun* ReadyQueue::pop() {
  if (heap_.empty()) return nullptr;
  std::pop_heap(heap_.begin(), heap_.end(), later);
  TaskRun* run = heap_.back().run;
  heap_.pop_back();
  return run;
}

}  // namespace troupe::task
