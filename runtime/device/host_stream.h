// The host twin of a stream: one thread, one queue in order, one team of compute threads, first error kept.
//
// Threads: any may enqueue; the order between threads is theirs to care for.
// Owns: its thread, team and scratch. The destructor drains the queue, then joins.
// Limits: kCapacity entries; the device loop's run-ahead keeps far below it, a full queue is a bug.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "runtime/device/pool.h"
#include "runtime/device/stream.h"

namespace troupe::device {

class HostStream final : public Stream {
 public:
  static constexpr std::size_t kCapacity = 1 << 16;

  // `scratch` may be empty for streams whose work needs none.
  HostStream(std::string name, int threads, Buffer scratch = {});
  ~HostStream() override;

  void enqueue(Work work) override;
  Event record() override;
  void wait(const Event& event) override;
  void notify(Work then) override;
  Status first_error() const override;
  const std::string& name() const override { return name_; }

  // Blocks until all work enqueued so far has completed. For tests, benchmarks and the end of main; never in a handler.
  void synchronize();
  std::int64_t waited_ns() const override { return probe_->waited_ns(); }
  // Time the thread spent running work, for the busy share.
  std::int64_t busy_ns() const { return probe_->busy_ns(); }
  trace::StreamProbe* probe() const override { return probe_.get(); }
  std::shared_ptr<const trace::StreamProbe> shared_probe() const override { return probe_; }

 private:
  struct Entry {
    Work work;
    Event wait_for;
    std::uint64_t completes = 0;  // record number this entry completes, 0 for none
    bool always = false;          // runs also after an error: records and notifications
  };
  void push(Entry entry);
  void serve();

  const std::string name_;
  ThreadTeam team_;
  Buffer scratch_;
  const std::shared_ptr<trace::StreamProbe> probe_;
  std::shared_ptr<StreamProgress> progress_ = std::make_shared<StreamProgress>();

  mutable std::mutex mutex_;    // guards what follows
  std::condition_variable filled_;
  std::deque<Entry> queue_;
  std::uint64_t recorded_ = 0;
  Status error_;
  bool closing_ = false;
  std::thread thread_;          // last: starts when all else stands
};

}  // namespace troupe::device
