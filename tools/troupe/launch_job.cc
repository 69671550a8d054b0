#include "tools/troupe/launch_job.h"

#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "comm/join/secret.h"
#include "comm/join/store_server.h"
#include "tools/troupe/launch_environment.h"
#include "tools/troupe/launch_output.h"
#include "tools/troupe/launch_remote.h"

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
constexpr int kFlushWithinMs = 5000;
constexpr int kTimedOut = 124;

constexpr int kPassedOn[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2};

// One rank while and after it runs.
struct Member {
  std::string host;
  LineCutter out, err;
  Tail err_tail;
  std::ofstream log;
  std::optional<Ending> ending;
};

class Job final : public CrewListener {
 public:
  Job(const LaunchArguments& arguments, const std::vector<HostSlots>& hosts) : arguments_(arguments), hosts_(hosts) {}
  StatusOr<int> run();

 private:
  // CrewListener
  void on_output(Rank rank, Stream stream, std::string_view bytes) override;
  void on_ended(Rank rank, const Ending& ending) override;
  void on_crew_failed(const std::string& what, int exit_code) override;
  void on_host_line(const std::string& host, std::string_view line) override { err_.line(absl::StrCat("[", host, "] "), line); }

  void say(const std::string& text) { err_.line("troupe: ", text); }
  void line(int rank, Stream stream, std::string_view text);
  Status open_logs();
  Status start_store();
  JobEnvironment environment() const;
  void start();
  void poll_once();
  void take_signals();
  void take_cause();
  void keep_time();
  void signal_all(int number);
  void stop(const std::string& why, std::chrono::seconds end_within = kEndWithin);  // SIGTERM now, SIGKILL later
  void say_first(int rank);
  int finish();
  bool done() const;

  const LaunchArguments& arguments_;
  const std::vector<HostSlots>& hosts_;
  Output out_{STDOUT_FILENO}, err_{STDERR_FILENO};
  std::vector<Member> members_;  // by rank
  std::string secret_ = comm::make_secret();
  int signal_fd_ = -1, cause_fd_ = -1;
  std::unique_ptr<comm::StoreServer> store_;
  std::unique_ptr<Guard> guard_;
  std::vector<std::unique_ptr<Crew>> crews_;

  std::optional<int> first_failed_;      // rank that was seen to end first
  std::optional<int> said_first_;
  std::optional<int> crew_exit_code_;    // the host or the program was not to be had
  std::optional<comm::StoreCause> cause_;
  bool stopping_ = false, timed_out_ = false, asked_to_end_ = false, interrupted_ = false;
  Deadline time_out_at_ = Deadline::max(), term_at_ = Deadline::max(), kill_at_ = Deadline::max(), abandon_at_ = Deadline::max();
  Deadline crews_at_{};  // when a crew's keep_time() is due
};

Status Job::open_logs() {
  if (arguments_.log_dir.empty()) return ok();
  std::error_code error;
  std::filesystem::create_directories(arguments_.log_dir, error);
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    const std::string path = absl::StrCat(arguments_.log_dir, "/rank-", rank, ".log");
    members_[rank].log.open(path, std::ios::binary | std::ios::trunc);
    if (!members_[rank].log)
      return absl::InvalidArgumentError(absl::StrCat("--log-dir: cannot write ", path, ": ", std::strerror(errno)));
  }
  return ok();
}

Status Job::start_store() {
  const bool all_here = std::ranges::all_of(hosts_, [](const HostSlots& host) { return is_this_host(host.host); });
  cause_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  const auto wake = [fd = cause_fd_](const comm::StoreCause&) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(fd, &one, sizeof one);
  };
  TROUPE_ASSIGN_OR_RETURN(
      store_,
      comm::StoreServer::start({.loopback_only = all_here, .secret = secret_, .world = static_cast<int>(members_.size())}, wake));
  return ok();
}

JobEnvironment Job::environment() const {
  const auto away = std::ranges::find_if(hosts_, [](const HostSlots& host) { return !is_this_host(host.host); });
  JobEnvironment environment{.store_host_here = "127.0.0.1",
                             .store_port = store_->port(),
                             .secret = secret_,
                             .master_host = "127.0.0.1",
                             .master_port = free_port(),
                             .more = arguments_.env};
  if (away == hosts_.end()) return environment;
  environment.store_host_there = arguments_.address.empty() ? address_towards(away->host) : arguments_.address;
  if (environment.store_host_there.empty()) environment.store_host_there = "launcher";
  if (!is_this_host(hosts_[0].host)) environment.master_host = hosts_[0].host;
  else if (environment.store_host_there != "launcher") environment.master_host = environment.store_host_there;
  return environment;
}

void Job::start() {
  const auto starts = starts_of(hosts_, environment());
  const std::vector<std::string> ssh = absl::StrSplit(arguments_.ssh, ' ', absl::SkipEmpty());
  for (std::size_t i = 0; i < hosts_.size() && !crew_exit_code_; ++i) {
    if (is_this_host(hosts_[i].host)) crews_.push_back(std::make_unique<LocalCrew>(hosts_[i].host, *guard_, *this));
    else crews_.push_back(std::make_unique<RemoteCrew>(hosts_[i].host, ssh, *guard_, *this));
    crews_.back()->start(starts[i], arguments_.program);
  }
}

StatusOr<int> Job::run() {
  for (const auto& host : hosts_) {
    for (int i = 0; i < host.slots; ++i) members_.emplace_back().host = host.host;
  }
  TROUPE_RETURN_IF_ERROR(open_logs());
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t signals, before;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  for (const int number : kPassedOn) sigaddset(&signals, number);
  sigprocmask(SIG_BLOCK, &signals, &before);
  signal_fd_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
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
                             {out_.pending() ? STDOUT_FILENO : -1, POLLOUT, 0},
                             {err_.pending() ? STDERR_FILENO : -1, POLLOUT, 0}};
  const std::size_t ours = polled.size();
  std::vector<std::size_t> first_of;
  const bool room = out_.has_room() && err_.has_room();
  for (const auto& crew : crews_) {
    first_of.push_back(polled.size());
    crew->add_descriptors(polled, room);
  }
  const Deadline next = std::min({time_out_at_, term_at_, kill_at_, abandon_at_, crews_at_});
  int timeout = -1;
  if (next != Deadline::max()) {
    timeout = static_cast<int>(std::clamp<std::int64_t>(
        std::chrono::ceil<std::chrono::milliseconds>(next - std::chrono::steady_clock::now()).count(), 0, 60000));
  }
  if (poll(polled.data(), polled.size(), timeout) < 0) return;
  for (std::size_t i = ours, crew = 0; i < polled.size(); ++i) {
    while (crew + 1 < crews_.size() && i >= first_of[crew + 1]) ++crew;
    if (polled[i].revents != 0) crews_[crew]->ready(polled[i].fd);
  }
  if (polled[2].revents != 0) out_.flush();
  if (polled[3].revents != 0) err_.flush();
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
    const int number = static_cast<int>(info.ssi_signo);
    if (number == SIGCHLD) {
      child = true;
    } else if (number == SIGINT && interrupted_) {
      say("a second SIGINT: all ranks are killed");
      kill_at_ = std::chrono::steady_clock::now();
    } else {
      if (number == SIGINT) interrupted_ = true;
      if (number == SIGINT || number == SIGTERM) asked_to_end_ = true;
      signal_all(number);
    }
  }
  if (!child) return;
  for (const auto& crew : crews_) crew->reap();
}

void Job::take_cause() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(cause_fd_, &count, sizeof count);
  if (cause_ || !(cause_ = store_->cause())) return;
  if (cause_->rank.value < 0) return;  // our own abort()
  if (!cause_->lost || said_first_ != cause_->rank.value) say(cause_->reason);
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
  if (!asked_to_end_) signal_all(SIGTERM);  // who got one from outside already must not take this for the second
}

void Job::keep_time() {
  const Deadline now = std::chrono::steady_clock::now();
  if (now >= time_out_at_) {
    time_out_at_ = Deadline::max();
    if (!stopping_) {
      timed_out_ = true;
      const std::string why = absl::StrCat("the job has run for the ", arguments_.timeout_s, " s of --timeout and is stopped");
      say(why);
      stop(why);
    }
  }
  if (now >= term_at_) stop("", cause_ && cause_->lost ? kLostEndsWithin : kEndWithin);
  if (now >= kill_at_) {
    kill_at_ = Deadline::max();
    std::vector<std::size_t> left;
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
      if (!members_[rank].ending) left.push_back(rank);
    }
    if (!interrupted_ || first_failed_)
      say(absl::StrCat(left.size() == 1 ? "rank " : "ranks ", absl::StrJoin(left, ", "), " did not end and ",
                       left.size() == 1 ? "is" : "are", " killed"));
    signal_all(SIGKILL);
    abandon_at_ = comm::after(kGoneWithin);
  }
  if (now >= abandon_at_) {
    abandon_at_ = Deadline::max();
    for (const auto& crew : crews_) crew->abandon();
  }
}

void Job::line(int rank, Stream stream, std::string_view text) {
  auto& member = members_[static_cast<std::size_t>(rank)];
  if (stream == Stream::kErr) member.err_tail.add(text);
  (stream == Stream::kOut ? out_ : err_).line(absl::StrCat("[", rank, "] "), text);
}

void Job::on_output(Rank rank, Stream stream, std::string_view bytes) {
  if (rank.value < 0 || static_cast<std::size_t>(rank.value) >= members_.size()) return;
  auto& member = members_[static_cast<std::size_t>(rank.value)];
  if (member.log.is_open() && !member.log.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush()) {
    say(absl::StrCat("the log of rank ", rank.value, " in ", arguments_.log_dir, " cannot be written any more"));
    member.log.close();
  }
  (stream == Stream::kOut ? member.out : member.err).add(bytes, [&](std::string_view text) { line(rank.value, stream, text); });
}

void Job::on_ended(Rank rank, const Ending& ending) {
  if (rank.value < 0 || static_cast<std::size_t>(rank.value) >= members_.size()) return;
  auto& member = members_[static_cast<std::size_t>(rank.value)];
  member.out.end([&](std::string_view text) { line(rank.value, Stream::kOut, text); });
  member.err.end([&](std::string_view text) { line(rank.value, Stream::kErr, text); });
  member.ending = ending;
  if (!ending.failed()) return;
  if (stopping_) return;  // what our own signals did is no failure that came first
  take_cause();
  if (!first_failed_) first_failed_ = rank.value;
  // Who ends because another has failed does not come first, even if the other is seen to end later; that one has its time
  // (take_cause).
  const bool other_is_first = cause_ && cause_->rank.value >= 0 && cause_->rank != rank;
  if (other_is_first && !members_[static_cast<std::size_t>(cause_->rank.value)].ending) return;
  if (!other_is_first) say_first(rank.value);
  stop(absl::StrCat("rank ", rank.value, " on ", member.host, " ", ending.text()));
}

void Job::on_crew_failed(const std::string& what, int exit_code) {
  say(what);
  if (!crew_exit_code_ && !first_failed_) crew_exit_code_ = exit_code;
  stop(what);
}

void Job::say_first(int rank) {
  if (said_first_) return;
  said_first_ = rank;
  const auto& member = members_[static_cast<std::size_t>(rank)];
  say(absl::StrCat("rank ", rank, " on ", member.host, " ", member.ending->text()));
}

int Job::finish() {
  int code = 0;
  std::optional<int> first = first_failed_;
  if (cause_ && cause_->rank.value >= 0 &&
      members_[static_cast<std::size_t>(cause_->rank.value)].ending.value_or(Ending{}).failed())
    first = cause_->rank.value;
  if (timed_out_) {
    code = kTimedOut;
  } else if (crew_exit_code_) {
    code = *crew_exit_code_;
  } else if (first) {
    say_first(*first);
    const auto& member = members_[static_cast<std::size_t>(*first)];
    code = member.ending->exit_code();
    if (!member.err_tail.lines().empty()) say(absl::StrCat("the last of what rank ", *first, " wrote to stderr:"));
    for (const auto& text : member.err_tail.lines()) err_.line(absl::StrCat("[", *first, "] "), text);
    const std::vector<std::string> state = absl::StrSplit(member.ending->last_state, '\n', absl::SkipEmpty());
    if (!state.empty()) say(absl::StrCat("what the actors of rank ", *first, " did, ", state[0], ":"));
    for (std::size_t i = 1; i < state.size(); ++i) err_.line(absl::StrCat("[", *first, "] "), state[i]);
  } else {
    // Nobody failed before we asked them to end; somebody may have after.
    for (const auto& member : members_) {
      if (code == 0 && member.ending && member.ending->failed()) code = member.ending->exit_code();
    }
    if (code == 0 && cause_) code = 1;
  }
  out_.flush_within(kFlushWithinMs);
  err_.flush_within(kFlushWithinMs);
  return code;
}

}  // namespace

StatusOr<int> run_job(const LaunchArguments& arguments, const std::vector<HostSlots>& hosts) { return Job(arguments, hosts).run(); }

}  // namespace troupe::tool
