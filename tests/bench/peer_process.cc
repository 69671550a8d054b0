#include "tests/bench/peer_process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/bench/pairs.h"

namespace troupe::bench {

StatusOr<PeerProcess> PeerProcess::start(const std::string& python, const std::string& script, const std::vector<std::string>& arguments) {
  int to[2], from[2];
  if (pipe(to) != 0 || pipe(from) != 0) return absl::UnavailableError("no pipe for the peer");
  std::vector<std::string> words{python, script};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  PeerProcess peer;
  peer.pid_ = fork();
  if (peer.pid_ == 0) {
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    for (int end : {to[0], to[1], from[0], from[1]}) close(end);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  peer.to_ = fdopen(to[1], "w");
  peer.from_ = fdopen(from[0], "r");
  TROUPE_ASSIGN_OR_RETURN(const std::string ready, peer.read_line());
  const auto json = nlohmann::json::parse(ready, nullptr, false);
  if (json.is_discarded() || !json.contains("ready")) return absl::UnavailableError(absl::StrCat(script, " said: ", ready));
  peer.description_ = ready;
  return peer;
}

PeerProcess::PeerProcess(PeerProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), to_(std::exchange(other.to_, nullptr)), from_(std::exchange(other.from_, nullptr)),
      description_(std::move(other.description_)) {}

PeerProcess::~PeerProcess() {
  if (to_) {
    std::fputs("quit\n", to_);
    std::fclose(to_);
  }
  if (from_) std::fclose(from_);
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
}

StatusOr<std::string> PeerProcess::read_line() {
  std::string line;
  for (int c = std::fgetc(from_); c != '\n'; c = std::fgetc(from_)) {
    if (c == EOF) return absl::UnavailableError("the peer ended without an answer: is torch installed for that Python?");
    line += static_cast<char>(c);
  }
  return line;
}

StatusOr<double> PeerProcess::run_step() {
  std::fputs("run 1\n", to_);
  std::fflush(to_);
  TROUPE_ASSIGN_OR_RETURN(const std::string line, read_line());
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (json.is_discarded() || !json.contains("tokens_per_s")) return absl::UnavailableError(absl::StrCat("the peer said: ", line));
  return json["tokens_per_s"].get<double>();
}

StatusOr<double> trial_of_peer(const std::string& python, const std::string& script, const std::vector<std::string>& arguments,
                               double best) {
  TROUPE_ASSIGN_OR_RETURN(auto peer, PeerProcess::start(python, script, arguments));
  std::vector<double> speeds;
  while (speeds.size() < 3 && (speeds.empty() || speeds.front() > best / 2)) {
    TROUPE_ASSIGN_OR_RETURN(const double one, peer.run_step());
    speeds.push_back(one);
  }
  return median(std::move(speeds));
}

}  // namespace troupe::bench
