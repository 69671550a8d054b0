// What signals mean to `troupe train`.
//
//   SIGINT, SIGTERM, SIGHUP  the step is finished, a checkpoint saved, the run ended; a second one ends the process at once. The same one
//                            within a second is the first one: some batch systems signal ranks and launcher, which passes it on
//   SIGUSR1, SIGUSR2         the same, and never at once: a batch system's word that the time is nearly up
//   SIGQUIT                  prints what every actor does and waits for, and the run goes on
// Before there is a job, each of them but SIGQUIT ends the process within a second or so, with 128 + its number, and the ranks that it has
// met hear why. What was ignored at the start (nohup) stays ignored.
//
// Threads: the calls by one, which makes this before any other thread starts: all signals are blocked then, and a thread of this takes
// them. Owns: that thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>

#include "actors/train/local_replicas.h"
#include "comm/join/cancel.h"
#include "comm/world/job_world.h"

namespace troupe::tool {

class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch() { end(); }
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  // Of the wait for the other ranks.
  const comm::Cancel* cancel() const { return &cancel_; }
  // The ranks have met; until watch() or end(), `world` is only asked what cancel() ends. kCancelled if a signal has come.
  Status met(comm::JobWorld& world);
  // There is a job: signals are its from now on.
  void watch(actors::LocalReplicas& ranks);
  // Before the job and the world end: a signal that comes later finds nobody to stop.
  void end();
  // What has ended the process before there was a job; 0: nothing. After end().
  int early() const { return early_; }

 private:
  void run();
  void end_process(int signal, std::unique_lock<std::mutex>& lock);
  void stop_job(int signal);

  sigset_t signals_;
  comm::Cancel cancel_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable ended_;
  bool ending_ = false;
  comm::JobWorld* world_ = nullptr;
  actors::LocalReplicas* ranks_ = nullptr;
  int early_ = 0;
  int first_ = 0;  // that asked the job to end
  std::chrono::steady_clock::time_point first_at_;

  std::thread thread_;
};

}  // namespace troupe::tool
