// What the dashboard knows of its job: the last frame, how the job is, and the series of its training; new frames come as they fall due.
//
// Threads: one makes, ends and destroys; the rest by any. Owns: a thread that asks the source, and the file that is recorded.
// Errors: none: what is wrong with the job is its state, which has why. Limits: one frame is kept, the series are bounded (dashboard_history.h).
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "tools/troupe/dashboard_history.h"
#include "tools/troupe/dashboard_source.h"

namespace troupe::tool {

class DashboardFeed {
 public:
  // `record`: empty, or a file that must not be there yet.
  static StatusOr<std::unique_ptr<DashboardFeed>> start(std::unique_ptr<FrameSource> source, const std::string& record);
  ~DashboardFeed();

  // What somebody has seen; a fresh one has seen nothing.
  struct Seen {
    std::uint64_t frame = 0, state = 0;
  };
  struct News {
    std::string state;                         // JSON; empty: unchanged
    std::shared_ptr<const std::string> frame;  // JSON in one line; null: unchanged
  };
  // Waits for something new, at most so long; then notes it as seen.
  News wait(Seen& seen, std::chrono::nanoseconds patience) const;

  std::string state() const;
  std::string history() const;
  StatusOr<std::string> ask(const std::string& target) const { return source_->ask(target); }

  // The job has ended for good, or this has: those who wait are told so.
  void end(const std::string& why);

 private:
  DashboardFeed(std::unique_ptr<FrameSource> source, std::ofstream record, std::string record_path);
  void run();
  void take(std::string frame);
  void record(std::string frame);
  void become(const std::string& state, const std::string& why);  // mutex_ is held
  bool is_live() const;
  std::string end_told(const std::string& why) const;

  const std::unique_ptr<FrameSource> source_;
  std::ofstream record_;
  const std::string record_path_;
  int recorded_ = 0;
  mutable std::mutex mutex_;  // guards what follows
  mutable std::condition_variable changed_;
  bool ending_ = false;
  std::shared_ptr<const std::string> frame_;
  std::string state_, why_, output_;
  std::int64_t steps_ = 0;  // that the training shall have
  std::string silent_;      // ranks that gave no answer in the last frame, and why
  double since_unix_s_ = 0;
  Seen number_;
  DashboardHistory history_;
  std::thread thread_;
};

}  // namespace troupe::tool
