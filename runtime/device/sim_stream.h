// The simulated twin of a stream: no thread; its work runs when the deterministic world says so, and takes
// virtual time.
//
// An entry costs what `cost` says (by the number of the entry) and has its effect at the end of that time, so
// a wait for its event is really a wait. Records, waits and notifications cost nothing. The same rules as
// every stream: order kept, first error kept, work after it is dropped while records and notifications still
// happen.
//
// Threads: one. Errors: waiting for an event that was never recorded is a bug. Limits: kCapacity entries.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/device/pool.h"
#include "runtime/device/stream.h"

namespace troupe::device {

// Anything that runs next to the actors in the deterministic world.
class SimRunnable {
 public:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  virtual ~SimRunnable() = default;
  // When it can make its next step if nothing else happens before: <= now means at once, kNever that it
  // cannot.
  virtual std::int64_t ready_at_ns() const = 0;
  virtual void step() = 0;
  virtual const std::string& name() const = 0;
};

class SimStream final : public Stream, public SimRunnable {
 public:
  static constexpr std::size_t kCapacity = 1 << 16;
  using Cost = std::function<std::int64_t(std::uint64_t entry)>;  // ns

  // `clock` outlives the stream. Without `cost` work takes no time. `scratch` may be empty.
  SimStream(std::string name, const Clock& clock, Cost cost = {}, Buffer scratch = {});

  void enqueue(Work work) override;
  Event record() override;
  void wait(const Event& event) override;
  void notify(Work then) override;
  Status first_error() const override { return error_; }
  const std::string& name() const override { return name_; }

  std::int64_t ready_at_ns() const override;
  void step() override;  // one entry
  std::size_t pending() const { return queue_.size(); }

 private:
  struct Entry {
    Work work;
    Event wait_for;
    std::uint64_t completes = 0;  // record number this entry completes, 0 for none
    bool always = false;          // runs also after an error
    std::int64_t cost_ns = 0;
  };
  void push(Entry entry);
  // The head begins when it becomes the head, or when it was enqueued to an idle stream.
  void begin_head();

  const std::string name_;
  const Clock& clock_;
  const Cost cost_;
  ThreadTeam team_{1};
  Buffer scratch_;
  std::shared_ptr<StreamProgress> progress_ = std::make_shared<StreamProgress>();
  std::uint64_t recorded_ = 0;
  std::uint64_t entries_ = 0;
  std::deque<Entry> queue_;
  std::int64_t head_ends_ns_ = 0;
  Status error_;
};

}  // namespace troupe::device
