#include "tests/bench/comm_peers.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace troupe::bench {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr int kSilentMostMs = 60'000;
constexpr double kPeerMiB = 1 << 20;  // ucx_perftest's MB

Status installed(const std::string& name) {
  const char* path = std::getenv("PATH");
  for (const auto folder : absl::StrSplit(path != nullptr ? path : "", ':')) {
    if (access(absl::StrCat(folder, "/", name).c_str(), X_OK) == 0) return ok();
  }
  return absl::NotFoundError(absl::StrCat(name, " is not installed"));
}

// A port of 127.0.0.1 that nobody has now. 0: none.
int free_port() {
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  const bool found = bind(probe, generic, size) == 0 && getsockname(probe, generic, &size) == 0;
  close(probe);
  return found ? ntohs(address.sin_port) : 0;
}

}  // namespace

// ---- a program ----

StatusOr<std::unique_ptr<Program>> Program::start(const Start& how) {
  TROUPE_RETURN_IF_ERROR(installed(how.words.front()));
  std::array<int, 2> to{}, from{};
  // A socket for its input: writing to one that has ended is an error there, not a signal.
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, to.data()) != 0 || pipe2(from.data(), O_CLOEXEC) != 0) return absl::UnavailableError("no pipe for a peer");
  std::vector<std::string> words = how.words;
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::unique_ptr<Program> program(new Program);
  program->name_ = how.words.front();
  program->pid_ = fork();
  if (program->pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);  // mpirun ends its ranks then
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    if (how.errors_too) dup2(from[1], STDERR_FILENO);
    if (!how.transports.empty()) setenv("UCX_TLS", how.transports.c_str(), 1);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  program->to_ = to[1];
  program->from_ = from[0];
  if (program->pid_ < 0) return absl::UnavailableError(absl::StrCat(program->name_, " could not be forked"));
  return program;
}

Program::~Program() {
  if (to_ >= 0) close(to_);
  if (!ended(5000) && pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (from_ >= 0) close(from_);
}

bool Program::ended(int grace_ms) {
  const auto until = std::chrono::steady_clock::now() + milliseconds(grace_ms);
  while (pid_ > 0) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      succeeded_ = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    } else if (std::chrono::steady_clock::now() >= until) {
      return false;
    } else {
      std::this_thread::sleep_for(milliseconds(2));
    }
  }
  return true;
}

Status Program::write_line(const std::string& line) {
  const std::string text = line + "\n";
  if (send(to_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size())) return ok();
  return absl::UnavailableError(absl::StrCat(name_, " does not listen any more"));
}

StatusOr<std::string> Program::read_line() {
  for (;;) {
    if (const auto end = unread_.find('\n'); end != std::string::npos) {
      const std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    pollfd readable{from_, POLLIN, 0};
    if (poll(&readable, 1, kSilentMostMs) <= 0) return absl::UnavailableError(absl::StrCat(name_, " says nothing"));
    std::array<char, 4096> some{};
    const ssize_t bytes = read(from_, some.data(), some.size());
    if (bytes <= 0) return absl::OutOfRangeError(absl::StrCat(name_, " ended", unread_.empty() ? "" : ": ", unread_));
    unread_.append(some.data(), static_cast<std::size_t>(bytes));
  }
}

// ---- ucx_perftest ----

StatusOr<UcxPerftest> UcxPerftest::find() {
  TROUPE_RETURN_IF_ERROR(installed("ucx_perftest"));
  return UcxPerftest();
}

StatusOr<double> UcxPerftest::ping_s(const std::string& transports, std::int64_t count) {
  TROUPE_ASSIGN_OR_RETURN(const double us, figure(transports, {"-t", "ucp_am_lat", "-s", "8", "-n", absl::StrCat(count), "-w", "100"}, 1));
  return us * 1e-6;
}

StatusOr<double> UcxPerftest::bulk_s(const std::string& transports, std::int64_t bytes, std::int64_t count, int open) {
  TROUPE_ASSIGN_OR_RETURN(const double rate, figure(transports, {"-t", "ucp_am_bw", "-s", absl::StrCat(bytes), "-n", absl::StrCat(count), "-w", "2",
                                                                 "-O", absl::StrCat(open)}, 5));
  return static_cast<double>(bytes) / (rate * kPeerMiB);
}

StatusOr<double> UcxPerftest::figure(const std::string& transports, const std::vector<std::string>& test, std::size_t column) {
  const std::string port = absl::StrCat(free_port());
  TROUPE_ASSIGN_OR_RETURN(const auto server, Program::start({.words = {"ucx_perftest", "-p", port}, .transports = transports, .errors_too = true}));
  std::vector<std::string> words{"ucx_perftest", "127.0.0.1", "-p", port, "-f", "-v"};
  words.insert(words.end(), test.begin(), test.end());
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (;;) {
    TROUPE_ASSIGN_OR_RETURN(const auto client, Program::start({.words = words, .transports = transports, .errors_too = true}));
    std::string last;
    double figure = -1;
    for (auto line = client->read_line();; line = client->read_line()) {
      if (absl::IsOutOfRange(line.status())) break;
      TROUPE_RETURN_IF_ERROR(line.status());
      last = *line;
      const std::vector<std::string> cells = absl::StrSplit(last, ',');
      double count = 0;
      if (cells.size() > column && absl::SimpleAtod(cells[0], &count) && !absl::SimpleAtod(cells[column], &figure)) figure = -1;
    }
    if (client->ended(5000) && client->succeeded() && figure > 0) {
      server->ended(5000);
      return figure;
    }
    // The server may not listen yet.
    if (server->ended(20) || std::chrono::steady_clock::now() > until) return absl::UnavailableError(absl::StrCat("ucx_perftest failed: ", last));
  }
}

// ---- Open MPI ----

StatusOr<std::unique_ptr<MpiCollectives>> MpiCollectives::start(const std::string& source, int ranks) {
  for (const char* needed : {"mpirun", "mpicc"}) TROUPE_RETURN_IF_ERROR(installed(needed));
  if (!fs::exists(source)) return absl::NotFoundError(absl::StrCat(source, " is not there: run the bench in the repository's root"));
  std::unique_ptr<MpiCollectives> peer(new MpiCollectives);
  TROUPE_RETURN_IF_ERROR(peer->set_up(source, ranks));
  return peer;
}

Status MpiCollectives::set_up(const std::string& source, int ranks) {
  std::error_code failed;
  std::string folder = fs::temp_directory_path(failed) / "troupe-bench-XXXXXX";
  if (failed || mkdtemp(folder.data()) == nullptr) return absl::UnavailableError("no temporary folder for the MPI program");
  folder_ = folder;
  const std::string binary = folder_ + "/mpi_collectives";
  {
    TROUPE_ASSIGN_OR_RETURN(const auto compiler, Program::start({.words = {"mpicc", "-O2", "-o", binary, source}, .errors_too = true}));
    std::string last;
    for (auto line = compiler->read_line(); line.ok(); line = compiler->read_line()) last = *line;
    if (!compiler->ended(5000) || !compiler->succeeded()) return absl::UnavailableError(absl::StrCat("mpicc failed: ", last));
  }
  std::vector<std::string> words{"mpirun", "--oversubscribe", "-n", absl::StrCat(ranks)};
  if (geteuid() == 0) words.emplace_back("--allow-run-as-root");
  words.push_back(binary);
  TROUPE_ASSIGN_OR_RETURN(program_, Program::start({.words = words}));
  TROUPE_ASSIGN_OR_RETURN(const std::string line, program_->read_line());
  const auto ready = nlohmann::json::parse(line, nullptr, false);
  if (ready.is_discarded() || !ready.contains("ready")) return absl::UnavailableError(absl::StrCat("the MPI program said: ", line));
  description_ = ready["ready"].get<std::string>();
  return ok();
}

MpiCollectives::~MpiCollectives() {
  program_.reset();
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

StatusOr<double> MpiCollectives::collective_s(comm::CollectiveKind kind, std::int64_t bytes, std::int64_t count) {
  std::string word = comm::name(kind);
  std::replace(word.begin(), word.end(), '-', '_');
  TROUPE_RETURN_IF_ERROR(program_->write_line(absl::StrCat(word, " ", bytes, " ", count)));
  TROUPE_ASSIGN_OR_RETURN(const std::string line, program_->read_line());
  const auto answer = nlohmann::json::parse(line, nullptr, false);
  if (answer.is_discarded() || !answer.contains("seconds")) return absl::UnavailableError(absl::StrCat("the MPI program said: ", line));
  return answer["seconds"].get<double>();
}

}  // namespace troupe::bench
