// The one ready queue and the one compute stream of a device.
//
// Acts:  RunTask -> the task runs to its first turn and waits in the queue; whenever the device has room, the most urgent turn is
//        taken: the task enqueues its kernels up to its next turn. OperationCompleted -> room again.
//        OpenGate -> the task that waits at that gate goes on to its next turn.
//        A task that has ended -> TaskDone to its owner, with the event after which all its work is done.
// Room:  at most kRunAhead of estimated device time is enqueued and not completed, but always two operations, so that the device
//        finds the next one waiting. Estimates come from the operations' costs and the measured rate.
// Holds: nothing of the tasks; their owners do, until TaskDone.
// Shown: the oldest operation that is not completed, as "running forward block 3 of micro-batch 1".
// Fails: when the stream has an error: the cause is the stream's first.
// Invariants: no kernel is enqueued outside a turn (DeviceLoopTest.StartsNothingWithoutRoom); order by key
//        (DeviceLoopTest.TakesTheMostUrgentTurn).
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/actor/actor.h"
#include "runtime/device/stream.h"
#include "runtime/task/task.h"

namespace troupe::actors {

// A task with whoever wants to hear of its end. Owned by that actor until it got TaskDone.
class DeviceTask : public task::TaskRun {
 public:
  DeviceTask(task::Task<> root, actor::Ref owner, std::uint64_t token)
      : TaskRun(std::move(root)), owner_(std::move(owner)), token_(token) {}
  const actor::Ref& owner() const { return owner_; }
  std::uint64_t token() const { return token_; }

 private:
  actor::Ref owner_;
  std::uint64_t token_;
};

struct RunTask {
  DeviceTask* task = nullptr;
};
// What the task asked for is there. The gate is the asking task's: it does not end before it has passed it.
struct OpenGate {
  task::Gate* gate = nullptr;
};
// All of the task's work is enqueued, and done after `done`.
struct TaskDone {
  std::uint64_t token = 0;
  device::Event done;
};
struct OperationCompleted {
  double cost = 0;
  std::int64_t estimate_ns = 0;
  std::int64_t completed_ns = 0;
};

class DeviceLoop : public actor::Actor {
 public:
  static constexpr std::int64_t kRunAheadNs = 4'000'000;

  // `max_operations` bounds what is enqueued at once, whatever the estimates say.
  DeviceLoop(device::Stream& stream, const Clock& clock, int max_operations = 256);

  // For the report at the end and the tests.
  std::int64_t operations_started() const { return started_; }

 private:
  void run(RunTask message);
  void open(OpenGate message);
  void completed(OperationCompleted message);
  void place(DeviceTask& task);
  void fill();
  bool room() const;
  void show_state();
  trace::Name name_of(const trace::Operation& operation);

  device::Stream& stream_;
  const Clock& clock_;
  const int max_operations_;
  task::ReadyQueue ready_;
  std::vector<const DeviceTask*> at_gates_;
  std::map<const std::string*, trace::Name> openers_;  // of gates
  std::map<std::tuple<const char*, std::int32_t, const char*>, trace::Name> operations_;  // by what, block, and what the number behind them is
  std::deque<trace::Operation> enqueued_;  // operations not completed
  std::int64_t enqueued_ns_ = 0;   // their estimate
  std::int64_t last_completed_ns_ = 0;
  double ns_per_cost_ = 0.01;      // 100 GFLOP/s, until measured
  std::int64_t started_ = 0;
};

}  // namespace troupe::actors
