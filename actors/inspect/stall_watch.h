// Says by itself when nothing goes on in a job: once a stall, in the log and as files, with who is at the bottom of it (CASES T25, T28).
//
// A stall: where steps are closed, none for max(least_s, factor x the median step); before the first and in programs without, no actor here has
// handled a message for least_s. And somebody must wait for somebody: who has nothing to do is not stalled. All ranks are asked by the
// Inspector's tree, so it works with stuck and stopped ones. Of several ranks that see one, the lowest speaks.
// Threads: one of its own; one thread makes, starts, ends and destroys; step_closed by any. Owns: nothing of what it looks at, which stays until end().
// Errors: files that cannot be written are said in the log. After `stop` was called this must be destroyed within exit_within_s, or the process
//         exits with EXIT_FAILURE: what hangs may not let it end.
// Invariants: StallWatchTest.SaysOnceForAStall, StallWatchTest.KnowsAStepThatTakesLongFromAStall.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "actors/inspect/inspector.h"
#include "actors/inspect/stall_report.h"
#include "runtime/base/ids.h"

namespace troupe::actors {

class StallWatch {
 public:
  struct Setup {
    Inspector& inspector;
    std::vector<const trace::ProbeRegistry*> probes;  // of the actors here
    int rank = 0;
    double factor = 5, least_s = 30;
    StepId last_done{-1};            // before the first step that is waited for; -1: there are none
    std::string folder{};            // gets stalls/step-N.txt and .json; empty: only said
    std::function<void(const Status&)> stop{};  // told of the first stall; empty: the job goes on
    double exit_within_s = 60;
  };
  StallWatch() = default;
  ~StallWatch();
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

  void start(Setup setup);
  void step_closed(StepId step, std::int64_t step_ns);
  // Looks no more.
  void end();

  std::int64_t reports() const;

 private:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::size_t kStepsKept = 64;  // for the median

  void run();
  std::optional<Stall> look();
  // Without the lock. False: nobody waits for anybody.
  bool someone_is_paused() const;
  enum class Found { kNoStall, kReported, kNotStopped };
  Found report(const Stall& stall);
  bool is_left_to_others(const std::vector<trace::RankReport>& ranks);
  void add_events(trace::WaitGraph& graph);
  void write(const Stall& stall, const StallReport& report);
  bool stop_job(const trace::WaitGraph& graph, const Stall& stall, const StallReport& report);
  double usual_s() const;
  std::int64_t handled() const;

  std::unique_ptr<Setup> setup_;
  mutable std::mutex mutex_;           // guards what follows
  std::condition_variable changed_;
  bool ended_ = false, gone_ = false;
  bool asks_ = false;                  // without the lock
  std::deque<double> steps_s_;         // the last closed ones
  StepId closed_{-1};
  std::int64_t progress_ = -1;         // steps, or messages handled
  Time since_{};                       // then that changed
  double not_before_s_ = 0;            // then it is said, or looked at again
  std::int64_t reports_ = 0;
  std::optional<Time> exit_at_;
  std::thread thread_;
};

}  // namespace troupe::actors
