#include "tests/bench/parallel_rank.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "comm/ucx/ucx_transport.h"
#include "runtime/base/log.h"
#include "tests/bench/forked.h"

namespace troupe::bench {
namespace {

[[noreturn]] void give_up(int socket, const Status& why) {
  send_packet(socket, nlohmann::json{{"error", std::string(why.message())}, {"code", static_cast<int>(why.code())}}.dump());
  _exit(1);
}

// Before any other thread is there.
Status settle_at(const RankPlace& place) {
  if (place.core >= 0) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(place.core, &cores);
    if (sched_setaffinity(0, sizeof cores, &cores) != 0) return absl::UnavailableError(absl::StrCat("no core ", place.core));
  }
  if (!place.network_namespace.empty()) {
    const std::string path = "/var/run/netns/" + place.network_namespace;
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) return absl::UnavailableError(absl::StrCat("cannot enter ", path));
    close(fd);
    // UCX looks for its devices in /sys, which shows those of the namespace that it was mounted in.
    if (unshare(CLONE_NEWNS) != 0 || mount("", "/", nullptr, MS_SLAVE | MS_REC, nullptr) != 0 ||
        mount("bench", "/sys", "sysfs", 0, nullptr) != 0) {
      return absl::UnavailableError(absl::StrCat("cannot see the devices of ", path, " in a /sys of its own"));
    }
  }
  for (const auto& [name, value] : place.environment) setenv(name.c_str(), value.c_str(), 1);
  return ok();
}

std::int64_t proportional_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string line; std::getline(file, line);) {
    long long kib = 0;
    if (std::sscanf(line.c_str(), "Pss: %lld kB", &kib) == 1) return kib * 1024;
  }
  return 0;
}

// Of this process's network namespace, without lo.
std::int64_t sent_bytes() {
  std::ifstream file("/proc/self/net/dev");
  std::int64_t sum = 0;
  for (std::string line; std::getline(file, line);) {
    char name[64];
    long long received = 0, sent = 0, skip = 0;
    const int read = std::sscanf(line.c_str(), " %63[^:]: %lld %lld %lld %lld %lld %lld %lld %lld %lld", name, &received, &skip, &skip,
                                 &skip, &skip, &skip, &skip, &skip, &sent);
    if (read == 10 && std::string(name) != "lo") sum += sent;
  }
  return sum;
}

// Of all threads there are, by name: time on a core, and time in which one could have run and had none.
nlohmann::json threads() {
  auto by_name = nlohmann::json::object();
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::string name;
    std::getline(std::ifstream(thread.path() / "comm"), name);
    double ran_ns = 0, waited_ns = 0;
    std::ifstream(thread.path() / "schedstat") >> ran_ns >> waited_ns;
    auto& sum = by_name[name];
    if (sum.is_null()) sum = nlohmann::json::object();
    sum = {{"ran_s", sum.value("ran_s", 0.0) + ran_ns * 1e-9}, {"waited_s", sum.value("waited_s", 0.0) + waited_ns * 1e-9}};
  }
  return by_name;
}

// A step closes when all have updated; what they then still owe each other, weights, moves while the next one begins, and would move for
// nothing between two steps that are asked for one by one.
int steps_of_a_turn(const PacedJob& job) { return job.plan().replicas > 1 ? 2 : 1; }

void serve(int socket, PacedJob& job, std::thread& end) {
  for (std::string order = next_packet(socket); !order.empty(); order = next_packet(socket)) {
    if (order == "end") {
      job.request_stop();
      end.join();
      return;
    }
    if (order == "step") {
      const auto report = job.step(steps_of_a_turn(job));
      send_packet(
          socket,
          nlohmann::json{{"step_ns", report.step_ns}, {"tokens", job.tokens_per_step()}, {"data_wait_ns", report.data_wait_ns}}.dump());
    } else {
      const auto summary = job.summary();
      send_packet(socket, nlohmann::json{{"bytes_by_term", summary.pool_bytes_by_term},
                                         {"proportional_bytes", proportional_bytes()},
                                         {"sent_bytes", sent_bytes()},
                                         {"threads", threads()}}
                              .dump());
    }
  }
  _exit(1);  // who asked is gone
}

}  // namespace

void run_parallel_rank(int socket, int rank, const PacedOptions& job, const RankPlace& place) {
  set_log_level(LogLevel::kWarning);
  if (const Status status = settle_at(place); !status.ok()) give_up(socket, status);
  std::unique_ptr<comm::UcxTransport> transport;
  if (job.replicas > 1) {
    auto opened =
        comm::UcxTransport::open({.rank = Rank(rank), .world = job.replicas, .job = 7, .heartbeat_timeout = std::chrono::seconds(60)});
    if (!opened.ok()) give_up(socket, opened.status());
    transport = std::move(*opened);
  }
  send_packet(socket, transport ? transport->address() : "-");
  std::vector<std::string> addresses;
  for (int i = 0; i < job.replicas; ++i) addresses.push_back(next_packet(socket));
  if (transport) transport->set_peers(std::move(addresses));
  {
    auto paced = PacedJob::create(job, transport.get());
    if (!paced.ok()) give_up(socket, paced.status());
    send_packet(socket, nlohmann::json{{"ready", true}}.dump());
    std::thread end([&] {
      if (const Status status = (*paced)->wait(); !status.ok()) give_up(socket, status);
    });
    serve(socket, **paced, end);
  }
  if (transport) transport->stop();
}

}  // namespace troupe::bench
