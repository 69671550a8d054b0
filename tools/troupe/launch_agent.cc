// The other end of a RemoteCrew: starts a host's ranks and tells the launcher of them.
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "comm/join/environment.h"
#include "comm/join/secret.h"
#include "comm/join/socket.h"
#include "comm/join/store_relay.h"
#include "tools/troupe/launch_remote.h"
#include "tools/troupe/launch_signals.h"

namespace troupe::tool {
namespace {

constexpr std::string_view kStoreUnknown = "TROUPE_STORE=launcher:";

// The agent's side of a crew: everything becomes a frame.
class Agent final : public CrewListener {
 public:
  int run();

 private:
  void on_output(Rank rank, Stream stream, std::string_view bytes) override {
    out_.write(std::move(comm::FrameWriter(kOutput).i32(rank.value).u8(stream == Stream::kOut ? 0 : 1).raw(bytes)).finish());
  }
  void on_ended(Rank rank, const Ending& ending) override {
    out_.write(std::move(comm::FrameWriter(kEnded).i32(rank.value).i32(ending.code).i32(ending.signal).text(ending.last_state)).finish());
  }
  void on_stopped(Rank rank, bool stopped) override {
    out_.write(std::move(comm::FrameWriter(kStopped).i32(rank.value).u8(stopped ? 1 : 0)).finish());
  }
  void on_crew_failed(const std::string& what, int exit_code) override {
    out_.write(std::move(comm::FrameWriter(kFailed).i32(exit_code).text(what.substr(0, what.rfind(" (on ")))).finish());
    failed_ = true;
  }
  void on_host_line(const std::string&, std::string_view line) override { err_.line("", line); }
  // False when the launcher has gone, or speaks nonsense.
  bool take_orders();
  bool start(comm::FrameReader& reader);
  void start_relay(const std::string& host, std::vector<RankStart>& ranks);

  Guard guard_;
  Output out_{STDOUT_FILENO}, err_{STDERR_FILENO};
  comm::FrameSplitter splitter_;
  std::unique_ptr<comm::StoreRelay> relay_;  // outlives the ranks
  std::unique_ptr<LocalCrew> crew_;
  bool failed_ = false;
};

// Without it, the ranks go to the store themselves.
void Agent::start_relay(const std::string& host, std::vector<RankStart>& ranks) {
  if (ranks.size() < 2) return;
  const auto told = [&](std::string_view name) -> std::string {
    for (const auto& variable : ranks[0].variables) {
      if (variable.starts_with(name)) return variable.substr(name.size());
    }
    return "";
  };
  const auto store = comm::parse_host_port(told("TROUPE_STORE="));
  int world = 0;
  if (!store.ok() || !absl::SimpleAtoi(told("TROUPE_WORLD_SIZE="), &world)) return;
  const std::string name = absl::StrCat("troupe-", comm::make_secret());  // two "hosts" may be one machine
  auto relay = comm::StoreRelay::start({.name = name,
                                        .host = host,
                                        .store_hosts = store->host,
                                        .store_port = store->port,
                                        .secret = told("TROUPE_SECRET="),
                                        .world = world},
                                       comm::Deadline::max());
  if (!relay.ok()) return;
  relay_ = *std::move(relay);
  for (auto& rank : ranks) rank.variables.push_back(absl::StrCat("TROUPE_RELAY=", name));
}

bool Agent::start(comm::FrameReader& reader) {
  const std::string host(reader.text());
  std::vector<std::string> program(std::min(reader.u32(), 1u << 16));
  for (auto& word : program) word = reader.text();
  std::vector<RankStart> ranks(std::min(reader.u32(), 1u << 16));
  // The launcher as it is seen from here, where it could not know its own address.
  const char* connection = std::getenv("SSH_CONNECTION");
  const std::string seen = connection ? std::string(connection).substr(0, std::string(connection).find(' ')) : "127.0.0.1";
  for (auto& rank : ranks) {
    rank.rank = Rank{reader.i32()};
    rank.variables.resize(std::min(reader.u32(), 1u << 16));
    for (auto& variable : rank.variables) {
      variable = reader.text();
      if (variable.starts_with(kStoreUnknown)) variable.replace(0, kStoreUnknown.size() - 1, absl::StrCat("TROUPE_STORE=", seen));
    }
  }
  if (!reader.ended_well() || program.empty() || ranks.empty()) return false;
  if (const Status enough = raise_open_files(LocalCrew::files_needed(static_cast<int>(ranks.size()))); !enough.ok()) {
    on_crew_failed(absl::StrCat(enough.message(), " (on ", host, ")"), 2);
    return true;
  }
  start_relay(host, ranks);
  crew_ = std::make_unique<LocalCrew>("here", guard_, *this);
  crew_->start(ranks, program);
  return true;
}

bool Agent::take_orders() {
  std::array<char, 1 << 14> part;
  const ssize_t count = read(STDIN_FILENO, part.data(), part.size());
  if (count < 0 && errno == EINTR) return true;
  if (count <= 0) return false;
  splitter_.append({part.data(), static_cast<std::size_t>(count)});
  while (true) {
    auto frame = splitter_.next();
    if (!frame.ok()) return false;
    if (!*frame) return true;
    comm::FrameReader reader(**frame);
    if (reader.type() == kStart && !crew_) {
      if (!start(reader)) return false;
    } else if (reader.type() == kAreYouThere) {
      out_.write(comm::FrameWriter(kHere).finish());
    } else if (reader.type() == kSignal && crew_) {
      crew_->signal(reader.i32());
    } else {
      return false;
    }
  }
}

int Agent::run() {
  const int signal_fd = listen_to_signals(std::array{SIGTERM, SIGHUP, SIGINT});
  out_.write(kAgentLine);
  out_.write(std::move(comm::FrameWriter(kReady).text(comm::program_build())).finish());
  std::vector<pollfd> polled;
  comm::Deadline crew_at = comm::Deadline::max();
  while (!failed_ && (!crew_ || !crew_->done())) {
    polled = {{STDIN_FILENO, POLLIN, 0}, {signal_fd, POLLIN, 0}, {out_.pending() ? STDOUT_FILENO : -1, POLLOUT, 0}};
    if (crew_) crew_->add_descriptors(polled, out_.has_room());
    if (poll(polled.data(), polled.size(), comm::remaining_ms(crew_at)) < 0) continue;
    for (std::size_t i = 3; i < polled.size(); ++i) {
      if (polled[i].revents != 0) crew_->ready(polled[i].fd);
    }
    signalfd_siginfo info{};
    while (read(signal_fd, &info, sizeof info) == sizeof info) {
      if (info.ssi_signo != SIGCHLD) return 1;  // the crew's destructor kills
    }
    if (crew_) crew_->reap();
    reap_orphans([&](pid_t pid) { return crew_ && crew_->owns(pid); });
    if (polled[2].revents != 0) out_.flush();
    if (polled[0].revents != 0 && !take_orders()) return 1;
    if (crew_) crew_at = crew_->keep_time(out_.has_room());
  }
  out_.flush_within(5000);
  close(signal_fd);
  return 0;
}

}  // namespace

int run_agent() { return Agent().run(); }

}  // namespace troupe::tool
