#include "tools/troupe/dashboard_source.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "actors/inspect/views.h"

namespace troupe::tool {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr auto kFramePatience = 5s;
constexpr double kPauseMost_s = 3600;

// A card that is left behind is of a process that had no time to take it away.
std::string how_it_ended(const RunningJob& job) {
  for (const auto& card : job.here) {
    std::error_code error;
    if (std::filesystem::exists(std::filesystem::path(card.socket).replace_extension(".json"), error))
      return absl::StrCat("process ", card.pid, " (rank ", card.rank, ") was killed or has crashed");
  }
  return "";
}

bool is_frame(const json& value) { return value.is_object() && value.contains("ranks") && value["ranks"].is_array(); }

}  // namespace

RunningJob JobFrames::job() const {
  const std::lock_guard lock(mutex_);
  return job_;
}

StatusOr<std::string> JobFrames::frame_of(const RunningJob& job) {
  TROUPE_ASSIGN_OR_RETURN(std::string frame, tool::ask(job, "/v1/frame", kFramePatience));
  TROUPE_ASSIGN_OR_RETURN(frame, actors::with_waits(std::move(frame)));
  std::ranges::replace(frame, '\n', ' ');
  const std::lock_guard lock(mutex_);
  job_ = job;
  ended_.clear();
  return frame;
}

StatusOr<std::string> JobFrames::next() {
  const RunningJob now = job();
  auto frame = frame_of(now);
  if (frame.ok()) return frame;
  const std::string how = how_it_ended(now);  // before the list takes away what is left of dead processes
  TROUPE_ASSIGN_OR_RETURN(const auto jobs, running_jobs());
  const auto& card = now.card();
  const auto same = std::ranges::find_if(jobs, [&](const RunningJob& job) { return job.card().job == card.job; });
  if (same != jobs.end()) {
    const std::lock_guard lock(mutex_);
    job_ = *same;
    return absl::UnavailableError(std::string(frame.status().message()));
  }
  if (ended_.empty()) ended_ = how.empty() ? "no process of it is left on this machine" : how;
  const auto follows = [&](const RunningJob& job) {
    return (!card.output.empty() && job.card().output == card.output) || (!wanted_.empty() && job.card().job.starts_with(wanted_));
  };
  const auto successor = std::ranges::find_if(jobs, follows);
  if (successor != jobs.end()) return frame_of(*successor);
  return absl::NotFoundError(ended_);
}

StatusOr<std::string> JobFrames::ask(const std::string& target) { return tool::ask(job(), target, kFramePatience); }

StatusOr<std::unique_ptr<RecordedFrames>> RecordedFrames::open(const std::string& path, double speed) {
  std::unique_ptr<RecordedFrames> frames(new RecordedFrames(path, speed));
  if (!frames->file_) return absl::NotFoundError(absl::StrCat("--replay ", path, ": there is no such file, or it cannot be read"));
  std::string head;
  std::getline(frames->file_, head);
  ++frames->line_;
  const json format = json::parse(head, nullptr, false);
  if (!format.is_object() || format.value("format", json()) != "troupe frames")
    return absl::InvalidArgumentError(absl::StrCat("--replay ", path, ": its first line must be ", kFramesHead, ", as troupe dashboard --record writes it"));
  TROUPE_ASSIGN_OR_RETURN(frames->ahead_, frames->read());
  return frames;
}

StatusOr<std::string> RecordedFrames::read() {
  std::string line;
  if (!std::getline(file_, line)) return absl::OutOfRangeError(absl::StrCat(line_ - 1, " frames"));
  ++line_;
  if (is_frame(json::parse(line, nullptr, false))) return line;
  return file_.eof() ? absl::OutOfRangeError(absl::StrCat(line_ - 2, " frames; the last line is torn"))
                     : absl::InvalidArgumentError(absl::StrCat("--replay ", path_, ":", line_, ": no frame of a job"));
}

StatusOr<std::string> RecordedFrames::next() {
  if (!after_.ok()) {
    pause_ = 1s;
    return after_;
  }
  std::string frame = std::move(ahead_);
  const json now = json::parse(frame, nullptr, false);
  if (now.contains("trace")) {
    const std::lock_guard lock(mutex_);
    trace_ = now["trace"].dump();
  }
  auto following = read();
  if (following.ok()) {
    ahead_ = *std::move(following);
    const auto at_s = [](const json& seen) { return seen.contains("at_unix_s") && seen["at_unix_s"].is_number() ? seen["at_unix_s"].get<double>() : 0.0; };
    const double apart_s = (at_s(json::parse(ahead_, nullptr, false)) - at_s(now)) / speed_;
    pause_ = std::chrono::nanoseconds(static_cast<std::int64_t>(1e9 * (std::isfinite(apart_s) ? std::clamp(apart_s, 0.0, kPauseMost_s) : 1.0)));
  } else {
    after_ = following.status();
    pause_ = 0s;
  }
  return frame;
}

StatusOr<std::string> RecordedFrames::ask(const std::string& target) {
  const std::lock_guard lock(mutex_);
  if (target.starts_with("/v1/trace") && !trace_.empty()) return trace_;
  return absl::NotFoundError("this was not recorded");
}

}  // namespace troupe::tool
