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

// The processes of this run that are ranks: rank -> pid. By what their command line and environment say, as an operator would look.
inline std::vector<std::pair<int, pid_t>> ranks_of(const std::string& output) {
  std::vector<std::pair<int, pid_t>> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string pid = entry.path().filename().string();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string command = read_text("/proc/" + pid + "/cmdline");
    if (command.find("--job.output=" + output) == std::string::npos) continue;
    const std::string environment = std::string(1, '\0') + read_text("/proc/" + pid + "/environ");
    const auto at = environment.find(std::string(1, '\0') + "TROUPE_RANK=");
    if (at != std::string::npos) found.emplace_back(std::stoi(environment.substr(at + 13)), static_cast<pid_t>(std::stol(pid)));
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
