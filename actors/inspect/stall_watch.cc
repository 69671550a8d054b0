#include "actors/inspect/stall_watch.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/log.h"

namespace troupe::actors {
namespace {

constexpr auto kAnswersWithin = std::chrono::seconds(1);
constexpr auto kEventsWithin = std::chrono::seconds(3);  // of all whose events are asked for: a silent rank makes each question last kAnswersWithin
constexpr auto kLooksApart = std::chrono::seconds(1);  // of a rank at those below it
constexpr std::size_t kRootsWithEvents = 3, kOfACycleWithEvents = 8;

std::chrono::nanoseconds in_ns(double seconds) { return std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9)); }

std::int64_t handled_of(const trace::Snapshot& snapshot) {
  std::int64_t handled = 0;
  for (const auto& actor : snapshot.actors) handled += actor.handled;
  return handled;
}

}  // namespace

void StallWatch::start(Setup setup) {
  setup_ = std::make_unique<Setup>(std::move(setup));
  closed_ = setup_->last_done;
  since_ = std::chrono::steady_clock::now();
  thread_ = std::thread([this] { run(); });
}

StallWatch::~StallWatch() {
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void StallWatch::end() {
  std::unique_lock lock(mutex_);
  ended_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return !asks_; });
}

std::int64_t StallWatch::reports() const {
  const std::lock_guard lock(mutex_);
  return reports_;
}

void StallWatch::step_closed(StepId step, std::int64_t step_ns) {
  const std::lock_guard lock(mutex_);
  closed_ = step;
  steps_s_.push_back(static_cast<double>(step_ns) * 1e-9);
  if (steps_s_.size() > kStepsKept) steps_s_.pop_front();
}

double StallWatch::usual_s() const {
  if (steps_s_.empty()) return 0;
  std::vector<double> sorted(steps_s_.begin(), steps_s_.end());
  std::ranges::nth_element(sorted, sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2));
  return sorted[sorted.size() / 2];
}

std::int64_t StallWatch::handled() const {
  std::int64_t handled = 0;
  for (const auto* probes : setup_->probes) handled += handled_of(probes->snapshot(trace::Detail::kBrief, trace::Lists::kActors));
  return handled;
}

void StallWatch::run() {
  const auto every = std::clamp<std::chrono::nanoseconds>(in_ns(setup_->least_s / 20), std::chrono::milliseconds(20), std::chrono::seconds(1));
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, every, [this] { return gone_; })) {
    if (exit_at_ && std::chrono::steady_clock::now() > *exit_at_) {
      log_error(absl::StrCat("the job has not ended ", setup_->exit_within_s, " s after it was stopped: exiting"));
      std::_Exit(EXIT_FAILURE);
    }
    const auto stall = ended_ || exit_at_ ? std::nullopt : look();
    if (!stall) continue;
    asks_ = true;
    lock.unlock();
    const Found found = report(*stall);
    lock.lock();
    asks_ = false;
    changed_.notify_all();
    if (found == Found::kNoStall) since_ = std::chrono::steady_clock::now();  // nobody had to do anything until now
    else not_before_s_ = found == Found::kReported ? std::numeric_limits<double>::infinity() : 2 * stall->stalled_s;
  }
}

// Of the actors here.
bool StallWatch::someone_is_paused() const {
  return std::ranges::any_of(setup_->probes, [](const auto* probes) {
    return std::ranges::any_of(probes->snapshot(trace::Detail::kBrief, trace::Lists::kActors).actors, [](const trace::ActorRow& actor) { return actor.state == trace::State::kPaused; });
  });
}

std::optional<Stall> StallWatch::look() {
  const double usual = usual_s();
  const std::int64_t progress = usual > 0 ? closed_.value : handled();
  const auto now = std::chrono::steady_clock::now();
  if (progress != progress_) {
    progress_ = progress;
    since_ = now;
    not_before_s_ = 0;
    return {};
  }
  if (someone_is_paused()) since_ = now;
  const double stalled_s = std::chrono::duration<double>(now - since_).count();
  if (stalled_s < std::max({not_before_s_, setup_->least_s, setup_->factor * usual})) return {};
  return Stall{.step = setup_->last_done.value >= 0 ? closed_.value + 1 : -1, .stalled_s = stalled_s, .usual_s = usual};
}

StallWatch::Found StallWatch::report(const Stall& stall) {
  const auto ranks = setup_->inspector.reports(kAnswersWithin);
  auto graph = trace::wait_graph(ranks);
  if (!is_stalled(ranks, graph)) return Found::kNoStall;
  if (setup_->rank > 0 && is_left_to_others(ranks)) return Found::kReported;
  add_events(graph);
  const StallReport report = stall_report(stall, ranks, graph);
  log_warning(report.text.substr(0, report.text.find_last_not_of('\n') + 1));
  write(stall, report);
  {
    const std::lock_guard lock(mutex_);
    ++reports_;
  }
  if (setup_->stop && !stop_job(graph, stall, report)) return Found::kNotStopped;
  return Found::kReported;
}

// One below answers, and none of its actors has handled anything meanwhile either: it sees what we see.
bool StallWatch::is_left_to_others(const std::vector<trace::RankReport>& ranks) {
  {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, kLooksApart, [this] { return gone_ || ended_; })) return true;
  }
  const auto again = setup_->inspector.reports(kAnswersWithin);
  return std::ranges::any_of(ranks, [&](const trace::RankReport& before) {
    if (!before.answered || before.rank >= setup_->rank) return false;
    const auto now = std::ranges::find(again, before.rank, &trace::RankReport::rank);
    return now != again.end() && now->answered && handled_of(now->snapshot) == handled_of(before.snapshot);
  });
}

void StallWatch::add_events(trace::WaitGraph& graph) {
  std::vector<int> bottom;
  if (!graph.cycles.empty()) bottom = graph.cycles.front();
  if (bottom.size() > kOfACycleWithEvents) bottom.resize(kOfACycleWithEvents);
  bottom.insert(bottom.end(), graph.roots.begin(), graph.roots.begin() + static_cast<std::ptrdiff_t>(std::min(graph.roots.size(), kRootsWithEvents)));
  const auto end = std::chrono::steady_clock::now() + kEventsWithin;
  for (const int of_it : bottom) {
    if (std::chrono::steady_clock::now() > end) return;
    auto& node = graph.nodes[static_cast<std::size_t>(of_it)];
    if (!node.actor.empty() && node.state != "unknown") node.last_events = setup_->inspector.last_events(node.rank, node.actor, kAnswersWithin);
  }
}

void StallWatch::write(const Stall& stall, const StallReport& report) {
  if (setup_->folder.empty()) return;
  const std::string folder = setup_->folder + "/stalls", stem = absl::StrCat(folder, "/step-", stall.step);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::ofstream for_people(stem + ".txt"), for_programs(stem + ".json");
  for_people << report.text;
  for_programs << report.json << "\n";
  for_people.close();
  for_programs.close();
  if (for_people && for_programs) {
    log_warning(absl::StrCat("the whole report of the stall: ", stem, ".txt, .json"));
  } else {
    log_error(absl::StrCat("the report of the stall cannot be written to ", stem, ".txt and .json"));
  }
}

bool StallWatch::stop_job(const trace::WaitGraph& graph, const Stall& stall, const StallReport& report) {
  const auto ledger = std::ranges::find(graph.nodes, "ledger", &trace::WaitGraph::Node::actor);
  if (ledger != graph.nodes.end() && (ledger->detail == "save" || ledger->detail == "evaluation")) {
    log_warning(absl::StrCat("job.on_stall = stop does not end a job that waits for its ", ledger->detail, ", which may take longer than steps"));
    return false;
  }
  {
    const std::lock_guard lock(mutex_);
    exit_at_ = std::chrono::steady_clock::now() + in_ns(setup_->exit_within_s);
  }
  setup_->stop(absl::DeadlineExceededError(absl::StrCat(absl::StrFormat("step %d is not closed after %.1f s, and job.on_stall = stop: ", stall.step, stall.stalled_s),
                                                        report.cause, setup_->folder.empty() ? "" : absl::StrCat("; see ", setup_->folder, "/stalls"))));
  return true;
}

}  // namespace troupe::actors
