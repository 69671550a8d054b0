#include "tools/troupe/stall_watch.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "runtime/base/log.h"
#include "runtime/trace/state_file.h"

namespace troupe::tool {
namespace {

constexpr double kFirstAfterS = 10;
constexpr auto kLookEvery = std::chrono::seconds(1);

// On one line: what each actor waits for, and the ranks that are missing where it is a collective.
void say(double waited_s, const std::string& actors, const std::vector<comm::CollectiveEngine::OpenOperation>& open) {
  std::string text = absl::StrFormat("nothing has gone on for %.0f s: %s", waited_s, absl::StrReplaceAll(actors, {{"\n", "; "}}));
  for (const auto& operation : open) {
    if (operation.missing.empty()) continue;
    const std::string ranks = absl::StrJoin(operation.missing, ", ", [](std::string* out, Rank rank) { absl::StrAppend(out, rank.value); });
    absl::StrAppend(&text, operation.what, " waits for rank", operation.missing.size() == 1 ? " " : "s ", ranks);
    break;  // the oldest; the others wait behind it
  }
  log_warning(text);
}

}  // namespace

StallWatch::StallWatch(actors::TrainingJob& job) : job_(job), since_(std::chrono::steady_clock::now()), say_after_s_(kFirstAfterS) {
  thread_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    while (!ended_.wait_for(lock, kLookEvery, [this] { return end_; })) look();
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

void StallWatch::look() {
  const auto snapshot = job_.system().probes().snapshot();
  std::int64_t handled = 0;
  for (const auto& actor : snapshot.actors) handled += actor.handled;
  const auto now = std::chrono::steady_clock::now();
  if (handled != handled_) {
    handled_ = handled;
    since_ = now;
    say_after_s_ = kFirstAfterS;
    return;
  }
  const double waited_s = std::chrono::duration<double>(now - since_).count();
  if (waited_s < say_after_s_) return;
  say_after_s_ = 2 * waited_s;
  job_.report_collectives([waited_s, actors = trace::state_text(snapshot)](const auto& open) { say(waited_s, actors, open); });
}

}  // namespace troupe::tool
