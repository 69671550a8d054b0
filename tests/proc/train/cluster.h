// A tiny training job in several processes on this machine.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/fault/run.h"

namespace troupe::test {

// Arguments of `troupe launch` for `ranks` processes of a tiny run. A model whose blocks are several chunks of the norm, so that ZeRO has
// something to split.
inline std::vector<std::string> launched(const TinyRun& run, int ranks, const std::string& name, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words{"launch", "--nproc", std::to_string(ranks), "--", TROUPE_BINARY};
  for (const auto& word : run.train(name, {"--model.hidden=128", "--model.intermediate=192", "--optimizer.lr=0.001", "--device.threads=1",
                                           "--parallelism.data_parallel=" + std::to_string(ranks)})) {
    words.push_back(word);
  }
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Of a process's environment; empty if it has none of that name.
inline std::string variable_of(pid_t pid, const std::string& name) {
  const std::string zero(1, '\0'), environment = zero + read_text("/proc/" + std::to_string(pid) + "/environ");
  const auto at = environment.find(zero + name + "=");
  return at == std::string::npos ? "" : std::string(environment.c_str() + at + name.size() + 2);
}

// The processes of this run that are ranks: rank -> pid. By what their command line and environment say, as an operator would look.
inline std::vector<std::pair<int, pid_t>> ranks_of(const std::string& output) {
  std::vector<std::pair<int, pid_t>> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string pid = entry.path().filename().string();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string command = read_text("/proc/" + pid + "/cmdline");
    if (command.find("--job.output=" + output) == std::string::npos) continue;
    const auto id = static_cast<pid_t>(std::stol(pid));
    if (const std::string rank = variable_of(id, "TROUPE_RANK"); !rank.empty()) found.emplace_back(std::stoi(rank), id);
  }
  return found;
}

inline pid_t pid_of_rank(const std::string& output, int rank) {
  for (const auto& [at, pid] : ranks_of(output)) {
    if (at == rank) return pid;
  }
  return -1;
}

}  // namespace troupe::test
