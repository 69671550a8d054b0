// Coroutines for work that waits: a pass over a stage's blocks waits for its turns on the device, for gathered weights, for room. Resumed by a trampoline.
//
// A Task<> starts when it is awaited or given to a TaskRun. `co_await child` runs the child on the same TaskRun. Every await_suspend here
// returns void and leaves the next handle with the TaskRun, whose loop resumes it: no symmetric transfer, so a million awaits that
// complete at once need no stack in any build mode (Task.AwaitsAMillionThatCompleteAtOnce).
//
// Threads: one at a time; a TaskRun is resumed by the device loop that holds it.
// Errors: none. Work that fails never resumes its task: the owner destroys it, so a task holds only what a destructor may release.
// An exception out of a task is a bug.
#pragma once

#include <coroutine>
#include <cstdint>
#include <string>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/task/ready_queue.h"
#include "runtime/trace/operation.h"

namespace troupe::task {

class TaskRun;

struct PromiseBase {
  TaskRun* run = nullptr;
  std::coroutine_handle<> parent;

  std::suspend_always initial_suspend() noexcept { return {}; }
  void unhandled_exception() { TROUPE_CHECK(false) << "an exception left a task"; }
  struct Final {
    bool await_ready() noexcept { return false; }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> ended) noexcept;
    void await_resume() noexcept {}
  };
  Final final_suspend() noexcept { return {}; }
};

template <class T = void>
class [[nodiscard]] Task;

template <>
class [[nodiscard]] Task<void> {
 public:
  struct promise_type : PromiseBase {
    Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
    void return_void() {}
  };

  Task() = default;
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  struct Awaiter {
    std::coroutine_handle<promise_type> child;
    bool await_ready() const { return false; }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> parent);
    void await_resume() {}
  };
  Awaiter operator co_await() && { return {handle_}; }

 private:
  friend class TaskRun;
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

// co_await Turn{key, cost}: suspends until the device takes this operation. Everything the task does up to its next await is the
// operation: it enqueues kernels, nothing else.
struct Turn {
  Key key;
  double cost = 0;  // in floating-point operations, or what takes as long
  trace::Operation shown{};  // what it is called

  bool await_ready() const { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> self);
  void await_resume() {}
};

// co_await gate: suspends until the gate is opened; one that is open does not suspend. For what a task waits for from outside: room,
// or data on its way. Opened once, where tasks are resumed (the device loop); it outlives the task's wait.
class Gate {
 public:
  const std::string* opened_by = nullptr;  // the name of the actor that will, for who looks inside

  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // The task that waits at it, for the caller to resume; null where none has come yet.
  TaskRun* open() {
    open_ = true;
    return std::exchange(waiting_, nullptr);
  }

  struct Awaiter {
    Gate& gate;
    bool await_ready() const { return gate.open_; }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> self);
    void await_resume() {}
  };
  Awaiter operator co_await() { return {*this}; }

 private:
  bool open_ = false;
  TaskRun* waiting_ = nullptr;
};

// One root task and where it stands.
class TaskRun {
 public:
  explicit TaskRun(Task<> root) : root_(std::move(root)), next_(root_.handle_) { root_.handle_.promise().run = this; }
  TaskRun(const TaskRun&) = delete;
  TaskRun& operator=(const TaskRun&) = delete;

  // Runs until the task waits for something or has ended.
  void resume() {
    turn_ = nullptr;
    gate_ = nullptr;
    suspended_ = false;
    while (next_ && !suspended_) std::exchange(next_, {}).resume();
  }
  bool done() const { return done_; }
  // The turn it waits for; null when it is done or waits for something else.
  const Turn* turn() const { return turn_; }
  bool at_gate() const { return gate_ != nullptr; }
  // The gate it waits at, or null.
  const Gate* gate() const { return gate_; }

 private:
  friend struct Turn;
  friend class Gate;
  friend struct PromiseBase;
  friend class Task<void>;

  Task<> root_;
  std::coroutine_handle<> next_;
  const Turn* turn_ = nullptr;
  const Gate* gate_ = nullptr;
  bool suspended_ = false;  // waits for the outside; `next_` goes on when resumed
  bool done_ = false;
};

template <class Promise>
void PromiseBase::Final::await_suspend(std::coroutine_handle<Promise> ended) noexcept {
  PromiseBase& promise = ended.promise();
  if (promise.parent) {
    promise.run->next_ = promise.parent;
  } else {
    promise.run->done_ = true;
  }
}

template <class Promise>
void Task<void>::Awaiter::await_suspend(std::coroutine_handle<Promise> parent) {
  child.promise().run = parent.promise().run;
  child.promise().parent = parent;
  parent.promise().run->next_ = child;
}

template <class Promise>
void Turn::await_suspend(std::coroutine_handle<Promise> self) {
  TaskRun& run = *self.promise().run;
  run.turn_ = this;
  run.next_ = self;  // resumed when the device loop calls TaskRun::resume
  run.suspended_ = true;
}

template <class Promise>
void Gate::Awaiter::await_suspend(std::coroutine_handle<Promise> self) {
  TaskRun& run = *self.promise().run;
  TROUPE_CHECK(gate.waiting_ == nullptr) << "two tasks wait at one gate";
  gate.waiting_ = &run;
  run.gate_ = &gate;
  run.next_ = self;
  run.suspended_ = true;
}

}  // namespace troupe::task
