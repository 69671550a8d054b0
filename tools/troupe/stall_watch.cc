#include "tools/troupe/stall_watch.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "runtime/base/log.h"
#include "runtime/trace/state_file.h"
#include "tools/troupe/text_by_rank.h"

namespace troupe::tool {
namespace {

constexpr double kFirstAfterS = 10;
constexpr auto kStallLookEvery = std::chrono::seconds(1);

// On one line: what each actor waits for, and the ranks that are missing where it is a collective.
void say(const std::string& prefix, double waited_s, const std::string& actors, const std::vector<comm::CollectiveEngine::OpenOperation>& open) {
  std::string text = absl::StrFormat("%snothing has gone on for %.0f s: %s", prefix, waited_s, absl::StrReplaceAll(actors, {{"\n", "; "}}));
  for (const auto& operation : open) {
    if (operation.missing.empty()) continue;
    const std::string ranks = absl::StrJoin(operation.missing, ", ", [](std::string* out, Rank rank) { absl::StrAppend(out, rank.value); });
    absl::StrAppend(&text, operation.what, " waits for rank", operation.missing.size() == 1 ? " " : "s ", ranks);
    break;  // the oldest; the others wait behind it
  }
  log_warning(text);
}

}  // namespace

StallWatch::StallWatch(const actors::LocalReplicas& ranks) {
  for (std::size_t rank = 0; rank < ranks.jobs().size(); ++rank) ranks_.push_back({*ranks.jobs()[rank], rank_prefix(ranks, rank)});
  thread_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    while (!ended_.wait_for(lock, kStallLookEvery, [this] { return end_; })) {
      for (auto& rank : ranks_) look(rank);
    }
  });
}

StallWatch::~StallWatch() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void StallWatch::look(Watched& rank) {
  const auto snapshot = rank.job.system().probes().snapshot();
  std::int64_t handled = 0;
  for (const auto& actor : snapshot.actors) handled += actor.handled;
  const auto now = std::chrono::steady_clock::now();
  if (handled != rank.handled) {
    rank.handled = handled;
    rank.since = now;
    rank.say_after_s = kFirstAfterS;
    return;
  }
  const double waited_s = std::chrono::duration<double>(now - rank.since).count();
  if (waited_s < rank.say_after_s) return;
  rank.say_after_s = 2 * waited_s;
  rank.job.report_collectives([waited_s, prefix = rank.prefix, actors = trace::state_text(snapshot)](const auto& open) { say(prefix, waited_s, actors, open); });
}

}  // namespace troupe::tool
