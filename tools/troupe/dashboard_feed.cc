#include "tools/troupe/dashboard_feed.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "runtime/base/log.h"

namespace troupe::tool {
namespace {

using nlohmann::json;

constexpr int kFramesATrace = 5;
constexpr std::size_t kTraceBytesMost = 4'000'000;

double unix_now_s() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// What the series need: a job of many ranks says much more.
json outline(const std::string& frame) {
  const auto wanted = [](int, json::parse_event_t event, json& value) {
    if (event != json::parse_event_t::key) return true;
    const auto& key = value.get_ref<const std::string&>();
    return key != "actors" && key != "edges" && key != "waits" && key != "streams" && key != "collectives" && key != "tombstones" && key != "trace";
  };
  return json::parse(frame, wanted, false);
}

std::string member_text(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

// Of a recorded job, or of one on another machine, there need be no such folder here, or it is another's.
bool DashboardFeed::is_live() const { return std::string_view(source_->state()) == "live"; }

StatusOr<std::unique_ptr<DashboardFeed>> DashboardFeed::start(std::unique_ptr<FrameSource> source, const std::string& record) {
  std::ofstream file;
  if (!record.empty()) {
    if (std::filesystem::exists(record)) return absl::FailedPreconditionError(absl::StrCat("--record ", record, ": there is such a file; name another one"));
    file.open(record, std::ios::binary);
    file << kFramesHead << "\n" << std::flush;
    if (!file) return absl::FailedPreconditionError(absl::StrCat("--record ", record, ": cannot be written"));
  }
  return std::unique_ptr<DashboardFeed>(new DashboardFeed(std::move(source), std::move(file), record));
}

DashboardFeed::DashboardFeed(std::unique_ptr<FrameSource> source, std::ofstream record, std::string record_path)
    : source_(std::move(source)), record_(std::move(record)), record_path_(std::move(record_path)) {
  become("connecting", "");
  thread_ = std::thread([this] { run(); });
}

DashboardFeed::~DashboardFeed() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void DashboardFeed::run() {
  for (std::unique_lock lock(mutex_); !ending_;) {
    lock.unlock();
    auto due = std::chrono::steady_clock::now();
    auto frame = source_->next();
    due += source_->pause();
    if (frame.ok()) {
      try {
        take(*std::move(frame));
      } catch (const json::exception&) {  // of another version, or of another's hand: not shown
      }
    }
    lock.lock();
    if (ending_) return;
    if (!frame.ok()) {
      const std::string why(frame.status().message());
      if (absl::IsNotFound(frame.status())) {
        if (is_live() && !output_.empty()) history_.read_metrics(output_ + "/metrics.jsonl");  // the last steps came after the last frame
        become("ended", end_told(why));
      }
      else if (absl::IsUnavailable(frame.status())) become("waiting", why);
      else become("replay_ended", why);
    }
    changed_.wait_until(lock, due, [&] { return ending_; });
  }
}

void DashboardFeed::take(std::string frame) {
  const json seen = outline(frame);
  if (!seen.is_object()) return;
  if (record_.is_open()) record(frame);
  const json job = seen.contains("job") && seen["job"].is_object() ? seen["job"] : json::object();
  const std::lock_guard lock(mutex_);
  output_ = member_text(job, "output");
  history_.follow(output_.empty() ? member_text(job, "job") : output_);
  if (is_live() && !output_.empty()) history_.read_metrics(output_ + "/metrics.jsonl");
  history_.take(seen);
  silent_.clear();
  for (const auto& rank : seen.value("ranks", json::array())) {
    if (!rank.is_object()) continue;
    if (rank.contains("training") && rank["training"].is_object()) steps_ = rank["training"].value("steps", std::int64_t{0});
    if (!rank.value("answered", false) && silent_.empty()) silent_ = absl::StrCat("rank ", rank.value("rank", -1), " gave no answer: ", member_text(rank, "error"));
  }
  frame_ = std::make_shared<const std::string>(std::move(frame));
  ++number_.frame;
  become(source_->state(), "");
  changed_.notify_all();
}

void DashboardFeed::record(std::string frame) {
  // The timeline is asked for by itself; a recorded one is that of the last frame that has one.
  if (recorded_++ % kFramesATrace == 0 && is_live() && frame.ends_with('}')) {
    const auto trace = source_->ask(absl::StrCat("/v1/trace?last_s=", kFramesATrace));
    if (trace.ok() && trace->size() < kTraceBytesMost && json::accept(*trace)) {
      frame.pop_back();
      absl::StrAppend(&frame, ",\"trace\":", *trace, "}");
      std::ranges::replace(frame, '\n', ' ');
    }
  }
  if (record_ << frame << "\n" << std::flush) return;
  log_warning(absl::StrCat("recording ", record_path_, " ends: it cannot be written"));
  record_.close();
}

std::string DashboardFeed::end_told(const std::string& why) const {
  std::string told;
  if (const auto step = history_.last_step(); step > 0) {
    told = steps_ > 0 && step >= steps_ ? absl::StrCat("all ", steps_, " steps are done") : absl::StrCat("after step ", step, steps_ > 0 ? absl::StrCat(" of ", steps_) : "");
  }
  if (!silent_.empty()) absl::StrAppend(&told, told.empty() ? "" : "; ", silent_);
  if (!why.empty()) absl::StrAppend(&told, told.empty() ? "" : "; ", why);
  return told;
}

void DashboardFeed::become(const std::string& state, const std::string& why) {
  if (state == state_ && why == why_) return;
  if (state != state_) since_unix_s_ = unix_now_s();
  state_ = state;
  why_ = why;
  ++number_.state;
  changed_.notify_all();
}

void DashboardFeed::end(const std::string& why) {
  const std::lock_guard lock(mutex_);
  ending_ = true;
  if (is_live() && !output_.empty()) history_.read_metrics(output_ + "/metrics.jsonl");
  become("ended", end_told(why));
  changed_.notify_all();
}

DashboardFeed::News DashboardFeed::wait(Seen& seen, std::chrono::nanoseconds patience) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [&] { return number_.frame != seen.frame || number_.state != seen.state; });
  News news;
  if (number_.frame != seen.frame) news.frame = frame_;
  if (number_.state != seen.state) news.state = json{{"state", state_}, {"why", why_}, {"since_unix_s", since_unix_s_}}.dump(-1, ' ', false, json::error_handler_t::replace);
  seen = number_;
  return news;
}

std::string DashboardFeed::state() const {
  Seen nothing;
  return wait(nothing, std::chrono::nanoseconds(0)).state;
}

std::string DashboardFeed::history() const {
  const std::lock_guard lock(mutex_);
  return history_.text(output_);
}

}  // namespace troupe::tool
