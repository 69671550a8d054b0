#include "tools/troupe/launch_job.h"

#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "comm/join/secret.h"
#include "comm/join/socket.h"
#include "comm/join/store_server.h"
#include "tools/troupe/launch_environment.h"
#include "tools/troupe/launch_ranks.h"
#include "tools/troupe/launch_remote.h"
#include "tools/troupe/launch_signals.h"
#include "tools/troupe/launch_stopped.h"

namespace troupe::tool {
namespace {

using namespace std::chrono_literals;
using comm::Deadline;

constexpr auto kEndWithin = 5s;         // of SIGTERM; then SIGKILL
constexpr auto kCauseIsKnownFor = 2s;   // ranks that have heard the cause from the store end by themselves; then SIGTERM
// A rank that others have lost (a cut link, SIGSTOP) will not end by itself, and they have heard of it: all is over within 10 s of what
// befell it, 6 of which the heartbeats may take.
constexpr auto kLostIsKnownFor = 1s, kLostEndsWithin = 2s;
constexpr auto kGoneWithin = 1s;        // of SIGKILL, through a link that may be cut; then its ssh ends
constexpr auto kLookAtStopped = 500ms;     // while a rank is stopped
constexpr int kTimedOut = 124;

class Job final : public CrewListener {
 public:
  Job(const LaunchArguments& arguments, const std::vector<HostSlots>& hosts) : arguments_(arguments), hosts_(hosts), ranks_(hosts) {}
  StatusOr<int> run();

 private:
  // CrewListener
  void on_output(Rank rank, Stream stream, std::string_view bytes) override;
  void on_ended(Rank rank, const Ending& ending) override;
  void on_crew_failed(const std::string& what, int exit_code) override;
  void on_stopped(Rank rank, bool stopped) override;
  void on_host_line(const std::string& host, std::string_view line) override { ranks_.host_line(host, line); }

  void say(const std::string& text) { ranks_.say(text); }
  Status start_store();
  void start();
  void poll_once();
  void take_signals();
  void pass_on(int number);
  void take_cause();
  void keep_time();
  void signal_all(int number);
  void stop(const std::string& why, std::chrono::seconds end_within = kEndWithin);  // SIGTERM now, SIGKILL later
  void say_first(Rank rank);
  int finish();
  bool done() const;

  const LaunchArguments& arguments_;
  const std::vector<HostSlots>& hosts_;
  LaunchedRanks ranks_;
  std::string secret_ = comm::make_secret();
  int signal_fd_ = -1, cause_fd_ = -1;
  std::unique_ptr<comm::StoreServer> store_;
  std::unique_ptr<Guard> guard_;
  std::vector<std::unique_ptr<Crew>> crews_;

  std::optional<Rank> first_failed_;     // was seen to end first
  std::optional<Rank> said_first_;
  std::optional<int> crew_exit_code_;    // the host or the program was not to be had
  std::optional<comm::StoreCause> cause_;
  bool stopping_ = false, timed_out_ = false;
  LauncherSignals signals_;
  Deadline time_out_at_ = Deadline::max(), term_at_ = Deadline::max(), kill_at_ = Deadline::max(), abandon_at_ = Deadline::max();
  Deadline crews_at_{};  // when a crew's keep_time() is due
  StoppedRanks stopped_;
};

Status Job::start_store() {
  const bool all_here = std::ranges::all_of(hosts_, [](const HostSlots& host) { return is_this_host(host.host); });
  cause_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  const auto wake = [fd = cause_fd_](const comm::StoreCause&) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(fd, &one, sizeof one);
  };
  TROUPE_ASSIGN_OR_RETURN(
      store_,
      comm::StoreServer::start({.loopback_only = all_here, .secret = secret_, .world = ranks_.count()}, wake));
  return ok();
}

void Job::start() {
  const auto starts = starts_of(hosts_, environment_of(hosts_, {.store_port = store_->port(), .secret = secret_, .more = arguments_.env},
                                                       arguments_.address));
  const std::vector<std::string> ssh = absl::StrSplit(arguments_.ssh, ' ', absl::SkipEmpty());
  for (std::size_t i = 0; i < hosts_.size() && !crew_exit_code_; ++i) {
    if (is_this_host(hosts_[i].host)) crews_.push_back(std::make_unique<LocalCrew>(hosts_[i].host, *guard_, *this));
    else crews_.push_back(std::make_unique<RemoteCrew>(hosts_[i].host, ssh, *guard_, *this));
    crews_.back()->start(starts[i], arguments_.program);
  }
}

StatusOr<int> Job::run() {
  TROUPE_RETURN_IF_ERROR(ranks_.open_logs(arguments_.log_dir));
  signal_fd_ = listen_to_signals(kPassedOn);
  guard_ = std::make_unique<Guard>();
  TROUPE_RETURN_IF_ERROR(start_store());
  if (arguments_.timeout_s > 0)
    time_out_at_ = comm::after(std::chrono::nanoseconds(static_cast<std::int64_t>(arguments_.timeout_s * 1e9)));
  start();
  while (!done()) poll_once();
  const int code = finish();
  crews_.clear();
  guard_.reset();
  store_.reset();
  close(signal_fd_);
  close(cause_fd_);
  return code;
}

bool Job::done() const {
  return std::ranges::all_of(crews_, [](const auto& crew) { return crew->done(); });
}

void Job::poll_once() {
  std::vector<pollfd> polled{{signal_fd_, POLLIN, 0},
                             {cause_fd_, POLLIN, 0},
                             {ranks_.out().pending() ? STDOUT_FILENO : -1, POLLOUT, 0},
                             {ranks_.err().pending() ? STDERR_FILENO : -1, POLLOUT, 0}};
  const std::size_t ours = polled.size();
  std::vector<std::size_t> first_of;
  const bool room = ranks_.has_room();
  for (const auto& crew : crews_) {
    first_of.push_back(polled.size());
    crew->add_descriptors(polled, room);
  }
  const Deadline look = stopped_.any() && !stopping_ ? comm::after(kLookAtStopped) : Deadline::max();
  const Deadline next = std::min({look, time_out_at_, term_at_, kill_at_, abandon_at_, crews_at_});
  if (poll(polled.data(), polled.size(), comm::remaining_ms(next)) < 0) return;
  for (std::size_t i = ours, crew = 0; i < polled.size(); ++i) {
    while (crew + 1 < crews_.size() && i >= first_of[crew + 1]) ++crew;
    if (polled[i].revents != 0) crews_[crew]->ready(polled[i].fd);
  }
  if (polled[2].revents != 0) ranks_.out().flush();
  if (polled[3].revents != 0) ranks_.err().flush();
  if (polled[1].revents != 0) take_cause();
  if (polled[0].revents != 0) take_signals();
  keep_time();
  crews_at_ = Deadline::max();
  for (const auto& crew : crews_) crews_at_ = std::min(crews_at_, crew->keep_time(room));
}

void Job::take_signals() {
  signalfd_siginfo info{};
  bool child = false;
  while (read(signal_fd_, &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGCHLD) child = true;
    else pass_on(static_cast<int>(info.ssi_signo));
  }
  if (!child) return;
  for (const auto& crew : crews_) crew->reap();
  reap_orphans([&](pid_t pid) { return std::ranges::any_of(crews_, [&](const auto& crew) { return crew->owns(pid); }); });
}

void Job::pass_on(int number) {
  const auto meaning = signals_.take(number, std::chrono::steady_clock::now());
  if (meaning == LauncherSignals::Meaning::kNothing) return;
  const std::string name = absl::StrCat("SIG", sigabbrev_np(number));
  if (meaning == LauncherSignals::Meaning::kEndNow) {
    say(absl::StrCat("a second signal to end, ", name, ": who has not ended in ", LauncherSignals::kKilledAfter / 1s, " s is killed"));
    kill_at_ = std::min(kill_at_, comm::after(LauncherSignals::kKilledAfter));
  }
  const auto waited_for = std::ranges::find_if(crews_, [](const auto& crew) { return !crew->reached(); });
  signal_all(number);
  if (meaning == LauncherSignals::Meaning::kEnd && waited_for != crews_.end() && !stopping_)
    on_crew_failed(absl::StrCat(name, " came before host ", (*waited_for)->host(), " had answered: the job ends"), 128 + number);
}

void Job::take_cause() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(cause_fd_, &count, sizeof count);
  if (cause_ || !(cause_ = store_->cause())) return;
  if (cause_->rank.value < 0) return;  // our own abort()
  if (!cause_->lost || said_first_ != cause_->rank) say(cause_->reason);
  if (!stopping_) term_at_ = comm::after(cause_->lost ? kLostIsKnownFor : kCauseIsKnownFor);
}

void Job::signal_all(int number) {
  for (const auto& crew : crews_) crew->signal(number);
}

void Job::stop(const std::string& why, std::chrono::seconds end_within) {
  term_at_ = Deadline::max();
  if (std::exchange(stopping_, true)) return;
  store_->abort(why);
  kill_at_ = std::min(kill_at_, comm::after(end_within));
  if (!signals_.asked_to_end()) signal_all(SIGTERM);  // who got one from outside already must not take this for the second
}

void Job::keep_time() {
  const Deadline now = std::chrono::steady_clock::now();
  if (now >= time_out_at_) {
    time_out_at_ = Deadline::max();
    if (!stopping_ && !ranks_.running().empty()) {
      timed_out_ = true;
      const std::string why = absl::StrCat("the job has run for the ", arguments_.timeout_s, " s of --timeout and is stopped");
      say(why);
      stop(why);
    }
  }
  if (const auto rank = stopping_ || cause_ ? std::nullopt : stopped_.awaited(*store_, now))
    store_->lose(*rank, absl::StrCat("rank ", rank->value, " on ", ranks_.host(*rank), " has not joined: its process is stopped"));
  if (now >= term_at_) stop("", cause_ && cause_->lost ? kLostEndsWithin : kEndWithin);
  if (now >= kill_at_) {
    kill_at_ = Deadline::max();
    const auto left = ranks_.running();
    if (!left.empty())
      say(absl::StrCat(LaunchedRanks::text_of(left), " did not end and ", left.size() == 1 ? "is" : "are", " killed"));
    signal_all(SIGKILL);
    abandon_at_ = comm::after(kGoneWithin);
  }
  if (now >= abandon_at_) {
    abandon_at_ = Deadline::max();
    for (const auto& crew : crews_) crew->abandon();
  }
}

void Job::on_stopped(Rank rank, bool stopped) {
  if (ranks_.has(rank)) stopped_.note(rank, stopped, std::chrono::steady_clock::now());
}

void Job::on_output(Rank rank, Stream stream, std::string_view bytes) {
  if (ranks_.has(rank)) ranks_.take_output(rank, stream, bytes);
}

void Job::on_ended(Rank rank, const Ending& ending) {
  if (!ranks_.has(rank)) return;
  ranks_.end(rank, ending);
  stopped_.note(rank, false, {});
  if (!ending.failed()) return;
  if (stopping_) return;  // what our own signals did is no failure that came first
  take_cause();
  if (!first_failed_) first_failed_ = rank;
  // Who ends because another has failed does not come first, even if the other is seen to end later; that one has its time
  // (take_cause).
  const bool other_is_first = cause_ && cause_->rank.value >= 0 && cause_->rank != rank;
  if (other_is_first && !ranks_.ending(cause_->rank)) return;
  if (!other_is_first) say_first(rank);
  stop(absl::StrCat("rank ", rank.value, " on ", ranks_.host(rank), " ", ending.text()));
}

void Job::on_crew_failed(const std::string& what, int exit_code) {
  say(what);
  if (!crew_exit_code_ && !first_failed_) crew_exit_code_ = exit_code;
  stop(what);
}

void Job::say_first(Rank rank) {
  if (said_first_) return;
  said_first_ = rank;
  ranks_.say_ending(rank);
}

int Job::finish() {
  if (const auto refused = store_->refused(); refused > 0)
    say(absl::StrCat("the store refused ", refused, refused == 1 ? " connection" : " connections", " that ", refused == 1 ? "was none" : "were none", " of the job's"));
  int code = 0;
  std::optional<Rank> first = first_failed_;
  if (cause_ && cause_->rank.value >= 0 && ranks_.failed(cause_->rank)) first = cause_->rank;
  if (timed_out_) {
    code = kTimedOut;
  } else if (crew_exit_code_) {
    code = *crew_exit_code_;
  } else if (first) {
    say_first(*first);
    code = ranks_.ending(*first)->exit_code();
    ranks_.say_last_words(*first);
  } else {
    // Nobody failed before we asked them to end; somebody may have after.
    for (int rank = 0; rank < ranks_.count() && code == 0; ++rank) {
      if (ranks_.failed(Rank{rank})) code = ranks_.ending(Rank{rank})->exit_code();
    }
    if (code == 0 && cause_) code = 1;
  }
  ranks_.flush();
  return code;
}

}  // namespace

StatusOr<int> run_job(const LaunchArguments& arguments, const std::vector<HostSlots>& hosts) { return Job(arguments, hosts).run(); }

}  // namespace troupe::tool
