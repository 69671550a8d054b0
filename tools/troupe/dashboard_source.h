// Where the dashboard's frames come from: a running job, which may end and come back, or a file of frames.
// Threads: one at a time calls next(); ask() any. Errors of next(): kUnavailable: nothing for now, and why (the job's processes do not answer);
// kNotFound: the job has ended, and why if that is known; kOutOfRange: the file has no more frames. All may be followed by frames.
#pragma once

#include <chrono>
#include <fstream>
#include <mutex>
#include <string>

#include "runtime/base/status.h"
#include "tools/troupe/running_jobs.h"

namespace troupe::tool {

class FrameSource {
 public:
  virtual ~FrameSource() = default;
  // The next frame, in one line.
  virtual StatusOr<std::string> next() = 0;
  // When to ask for it.
  virtual std::chrono::nanoseconds pause() const = 0;
  // Anything else that a job answers: "/v1/mailbox?actor=...".
  virtual StatusOr<std::string> ask(const std::string& target) = 0;
  virtual const char* state() const = 0;  // while there are frames: "live", "replay"
};

// A job, then whichever job with the same output folder, or with an id that begins with `wanted`, follows it.
class JobFrames : public FrameSource {
 public:
  JobFrames(RunningJob job, std::string wanted) : wanted_(std::move(wanted)), job_(std::move(job)) {}
  StatusOr<std::string> next() override;
  std::chrono::nanoseconds pause() const override { return std::chrono::seconds(1); }
  StatusOr<std::string> ask(const std::string& target) override;
  const char* state() const override { return "live"; }

 private:
  RunningJob job() const;
  StatusOr<std::string> frame_of(const RunningJob& job);

  const std::string wanted_;
  std::string ended_;  // why, as it was seen first; empty: it runs
  mutable std::mutex mutex_;
  RunningJob job_;
};

// Lines of JSON, as --record writes them: {"schema":1,"format":"troupe frames"}, then a frame a line.
class RecordedFrames : public FrameSource {
 public:
  static StatusOr<std::unique_ptr<RecordedFrames>> open(const std::string& path, double speed);
  StatusOr<std::string> next() override;
  std::chrono::nanoseconds pause() const override { return pause_; }
  StatusOr<std::string> ask(const std::string& target) override;
  const char* state() const override { return "replay"; }

 private:
  RecordedFrames(std::string path, double speed) : path_(std::move(path)), speed_(speed), file_(path_, std::ios::binary) {}
  StatusOr<std::string> read();

  const std::string path_;
  const double speed_;
  std::ifstream file_;
  int line_ = 0;
  std::string ahead_;  // the frame after the one that was given last
  Status after_;       // why there is none
  std::chrono::nanoseconds pause_{0};
  std::mutex mutex_;
  std::string trace_;  // of the last frame that has one
};

inline constexpr const char* kFramesHead = R"({"schema":1,"format":"troupe frames"})";

}  // namespace troupe::tool
