// A job of many processes, from the launcher's start to its end.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/bench/pairs.h"
#include "tests/bench/parallel_rows.h"

namespace troupe::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kJoinPatience{300};

std::int64_t proportional_bytes_of(const std::string& process) {
  std::ifstream file("/proc/" + process + "/smaps_rollup");
  for (std::string line; std::getline(file, line);) {
    long long kib = 0;
    if (std::sscanf(line.c_str(), "Pss: %lld kB", &kib) == 1) return kib * 1024;
  }
  return 0;
}

// Of all ranks below the launcher that there are now.
std::vector<double> memory_of_ranks(pid_t launcher) {
  std::vector<double> found;
  std::error_code error;
  for (const auto& thread : fs::directory_iterator(absl::StrCat("/proc/", launcher, "/task"), error)) {
    std::ifstream children(thread.path() / "children");
    for (std::string child; children >> child;) {
      std::ifstream words("/proc/" + child + "/cmdline");
      std::string command;
      std::getline(words, command);
      if (command.find(std::string(1, '\0') + "train" + '\0') == std::string::npos) continue;  // the launcher's guard
      if (command.find(std::string(1, '\0') + "launch" + '\0') != std::string::npos) continue;
      if (const auto bytes = proportional_bytes_of(child)) found.push_back(static_cast<double>(bytes));
    }
  }
  return found;
}

}  // namespace

Status measure_join(const ParallelOptions& options, Rows& rows) {
  const PacedOptions job{.model = "test-llama",
                         .batch = 1,
                         .seq_len = 32,
                         .threads = 1,
                         .dtype = "fp32",
                         .micro_batches = options.processes,
                         .replicas = options.processes};
  TROUPE_ASSIGN_OR_RETURN(const std::string folder, prepare_folder(job));
  const std::string config = folder + "/job.toml";
  std::ofstream(config) << "[job]\noutput = \"" << folder << "/run\"\nheartbeat_timeout_s = 30\n[limits]\nshutdown_seconds = 60\n[device]\nthreads = 1\n[model]\nname = \""
                        << job.model << "\"\n[data]\ntrain = \"" << folder
                        << "/tokens.bin\"\ndocument_mask = false\n[training]\nsteps = 3\nseq_len = " << job.seq_len
                        << "\nmicro_batch = 1\nglobal_batch = " << job.micro_batches
                        << "\ndtype = \"fp32\"\n[parallelism]\ndata_parallel = " << job.replicas << "\n";
  std::error_code error;
  const std::string program = fs::canonical(options.program, error).string();
  const std::string log = folder + "/log", count = absl::StrCat(options.processes);
  const auto begin = Clock::now();
  const pid_t launcher = fork();
  if (launcher == 0) {
    if (!std::freopen(log.c_str(), "w", stdout) || dup2(STDOUT_FILENO, STDERR_FILENO) < 0) _exit(126);
    execl(program.c_str(), program.c_str(), "launch", "--nproc", count.c_str(), "--", program.c_str(), "train", config.c_str(), nullptr);
    _exit(127);
  }
  if (launcher < 0) return absl::ResourceExhaustedError("no process can be made for the launcher");
  // Of the moments at which most ranks were there, the one at which they held most.
  std::vector<double> memory;
  int status = 0;
  auto look = begin;
  while (waitpid(launcher, &status, WNOHANG) == 0) {
    if (Clock::now() - begin > kJoinPatience) kill(launcher, SIGKILL);  // its guard ends the ranks
    if (Clock::now() >= look) {
      look = Clock::now();
      auto now = memory_of_ranks(launcher);
      const bool more = now.size() > memory.size() || (now.size() == memory.size() && median(now) > median(memory));
      if (more) memory = std::move(now);
      look = Clock::now() +
             std::max<Clock::duration>(20 * (Clock::now() - look), std::chrono::milliseconds(50));  // to look takes time of the job's
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const double s = std::chrono::duration<double>(Clock::now() - begin).count();
  std::string said;
  std::ifstream lines(log);
  for (std::string line; std::getline(lines, line);) said = line;
  const bool well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  fs::remove_all(folder, error);
  if (!well) return absl::UnavailableError(absl::StrCat("a job of ", count, " processes failed after ", s, " s; its last line: ", said));
  rows.push_back({"parallel.join", s, "s", 60, 0,
                  absl::StrCat(count, " processes started by troupe launch join, train 3 steps of ", job.model,
                               ", save, leave: from the launcher's start to its end; heartbeats may be 30 s late, as the ranks "
                               "outnumber the cores; at most")});
  rows.push_back(
      {"parallel.join.memory", memory.empty() ? 0 : median(memory) / (1 << 20), "MiB", 0,
       memory.empty() ? 0 : *std::max_element(memory.begin(), memory.end()) / (1 << 20),
       absl::StrCat("proportional resident size of a rank, the median of the ", memory.size(), " seen at once; peer: the largest")});
  return ok();
}

}  // namespace troupe::bench
