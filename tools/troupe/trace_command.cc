// `troupe trace`: looks at the rings of all ranks often enough to put them together without a gap, and writes the picture.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/trace/chrome_trace.h"
#include "runtime/trace/json.h"
#include "runtime/trace/probe.h"
#include "runtime/trace/stream_probe.h"
#include "tools/troupe/commands.h"
#include "tools/troupe/running_jobs.h"
#include "tools/troupe/trace_pace.h"
#include "tools/troupe/trace_since.h"

namespace troupe::tool {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr auto kRingsWithin = 4s;  // ranks have one, then the way there and back

double steady_now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

class Recording {
 public:
  // From `before_s` ago on.
  Recording(const RunningJob& job, double before_s) : job_(job), before_s_(before_s) {}

  // What has happened since the look before.
  Status look() {
    const double now_s = steady_now_s();
    const auto since_s = since_.unix_s(now_s);
    const std::string target = ranks_.empty() ? absl::StrCat("/v1/trace?last_s=", before_s_)
                               : since_s      ? absl::StrFormat("/v1/trace?since_unix_s=%.6f", *since_s)
                                              : absl::StrCat("/v1/trace?last_s=", TraceSince::kBackMostS);
    TROUPE_ASSIGN_OR_RETURN(const std::string text, ask(job_, target, kRingsWithin));
    const json answer = json::parse(text, nullptr, false);
    if (!answer.is_object() || !answer.value("ranks", json()).is_array())
      return absl::DataLossError(absl::StrCat("job ", job_.card().job, " answered no trace: does it run another version?"));
    fullest_ = 0;
    for (const auto& rank : answer["ranks"]) {
      TROUPE_ASSIGN_OR_RETURN(trace::RankTrace trace, trace::rank_trace_from_json(rank.dump()));
      since_.saw(trace.rank, trace.at_unix_s, now_s);
      note_steps(trace);
      for (const auto& actor : trace.actors) fullest_ = std::max(fullest_, static_cast<double>(actor.events.size()) / trace::Probe::kEvents);
      for (const auto& stream : trace.streams) fullest_ = std::max(fullest_, static_cast<double>(stream.operations.size()) / trace::StreamProbe::kOperations);
      const auto [at, fresh] = ranks_.try_emplace(trace.rank, trace);
      if (!fresh) {
        trace::extend(at->second, std::move(trace));
        continue;
      }
      for (auto& stream : at->second.streams) stream.lost = 0;  // before anybody looked
      for (auto& actor : at->second.actors) actor.lost = 0;
    }
    if (open_ < 0) open_ = newest_;
    unanswered_ = answer.value("unanswered", json::array()).size();
    return ok();
  }

  // Steps that were recorded from their beginning to their end.
  std::int64_t whole_steps() const { return open_ < 0 ? 0 : std::max<std::int64_t>(0, newest_ - open_ - 1); }
  std::int64_t lost() const {
    std::int64_t lost = 0;
    for (const auto& [number, rank] : ranks_) {
      for (const auto& stream : rank.streams) lost += stream.lost;
      for (const auto& actor : rank.actors) lost += actor.lost;
    }
    return lost;
  }
  // Of the rings, the share of the one that had most that was new at the last look.
  double fullest() const { return fullest_; }
  std::size_t unanswered() const { return unanswered_; }
  std::size_t count() const {
    std::size_t count = 0;
    for (const auto& [number, rank] : ranks_) {
      for (const auto& stream : rank.streams) count += stream.operations.size();
      for (const auto& actor : rank.actors) count += actor.events.size();
    }
    return count;
  }
  std::size_t ranks() const { return ranks_.size(); }

  Status write(const std::string& path) const {
    std::vector<trace::RankTrace> all;
    for (const auto& [number, rank] : ranks_) all.push_back(rank);
    std::ofstream file(path, std::ios::binary);
    file << trace::chrome_trace(all, job_.card().job);
    file.close();
    if (file) return ok();
    return absl::FailedPreconditionError(absl::StrCat("cannot write ", path, ": is its folder there, and room on the disk?"));
  }

 private:
  void note_steps(const trace::RankTrace& trace) {
    for (const auto& stream : trace.streams) {
      if (stream.kind != "compute") continue;
      for (const auto* list : {&stream.operations, &stream.running}) {
        for (const auto& operation : *list) newest_ = std::max(newest_, operation.step);
      }
    }
  }

  const RunningJob& job_;
  const double before_s_;
  std::map<int, trace::RankTrace> ranks_;
  TraceSince since_;
  std::int64_t open_ = -1, newest_ = -1;  // step at the first look, and now
  std::size_t unanswered_ = 0;            // ranks, at the last look
  double fullest_ = 0;
};

}  // namespace

Status trace(const TraceArguments& arguments) {
  TROUPE_ASSIGN_OR_RETURN(const RunningJob job, running_job(arguments.job));
  Recording recording(job, arguments.before_s);
  TROUPE_RETURN_IF_ERROR(recording.look());
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(static_cast<std::int64_t>(arguments.seconds * 1e9));
  Status ended;
  TracePace pace;
  while (ended.ok() && recording.whole_steps() < arguments.steps && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(pace.next(recording.fullest()));
    ended = recording.look();
  }
  TROUPE_RETURN_IF_ERROR(recording.write(arguments.out));
  std::printf("%s: %zu events of %zu ranks, %lld whole steps, %lld events lost\n", arguments.out.c_str(), recording.count(), recording.ranks(),
              static_cast<long long>(recording.whole_steps()), static_cast<long long>(recording.lost()));
  if (recording.count() == 0) std::printf("nothing happened meanwhile: --last S takes what happened before\n");
  if (recording.lost() > 0) std::printf("lost: what busy actors did between two looks, more than their rings hold\n");
  if (recording.unanswered() > 0) std::printf("%zu ranks did not answer\n", recording.unanswered());
  if (!ended.ok()) std::printf("it ended before that: %s\n", std::string(ended.message()).c_str());
  return ok();
}

}  // namespace troupe::tool
