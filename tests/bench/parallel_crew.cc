#include "tests/bench/parallel_crew.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/bench/program_part.h"

namespace troupe::bench {
namespace {

// An answer, or the error it tells of.
StatusOr<nlohmann::json> parsed(const StatusOr<std::string>& packet, int rank) {
  TROUPE_RETURN_IF_ERROR(packet.status());
  auto answer = nlohmann::json::parse(*packet, nullptr, false);
  if (answer.is_discarded()) return absl::UnavailableError(absl::StrCat("rank ", rank, " said: ", *packet));
  if (answer.contains("error")) {
    return Status(static_cast<absl::StatusCode>(answer["code"].get<int>()),
                  absl::StrCat("rank ", rank, ": ", answer["error"].get<std::string>()));
  }
  return answer;
}

std::int64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    long long kib = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %lld kB", &kib) == 1) return kib * 1024;
  }
  return 0;
}

}  // namespace

StatusOr<std::unique_ptr<ParallelCrew>> ParallelCrew::start(PacedOptions job, const std::vector<RankPlace>& places, const std::string& program) {
  TROUPE_ASSIGN_OR_RETURN(const auto planned, plan_of(job));
  const std::int64_t needed = planned.plan.total_bytes * job.replicas, available = available_bytes();
  if (needed > available) {
    return absl::ResourceExhaustedError(absl::StrCat(job.replicas, " process(es) of ", job.model, " need ", needed >> 20, " MiB together, ",
                                                     available >> 20, " MiB are free: end what else runs, or measure a smaller --model"));
  }
  std::unique_ptr<ParallelCrew> crew(new ParallelCrew);
  TROUPE_ASSIGN_OR_RETURN(crew->folder_, prepare_folder(job));
  job.folder = crew->folder_;
  TROUPE_RETURN_IF_ERROR(crew->set_up(job, places, program));
  TROUPE_RETURN_IF_ERROR(crew->step_s().status());
  return crew;
}

Status ParallelCrew::set_up(const PacedOptions& job, std::vector<RankPlace> places, const std::string& program) {
  places.resize(static_cast<std::size_t>(job.replicas));
  TROUPE_ASSIGN_OR_RETURN(ranks_, ForkedRanks::fork(job.replicas, [&](int socket, int rank) {
                            if (!program.empty()) become_part(program, "train", socket, rank, to_text(job));
                            run_parallel_rank(socket, rank, job, places[static_cast<std::size_t>(rank)]);
                          }));
  std::vector<std::string> addresses;
  for (int rank = 0; rank < ranks_.count(); ++rank) {
    TROUPE_ASSIGN_OR_RETURN(const std::string address, ranks_.receive(rank));
    if (address.starts_with("{\"")) TROUPE_RETURN_IF_ERROR(parsed(address, rank).status());
    addresses.push_back(address);
  }
  for (int rank = 0; rank < ranks_.count(); ++rank) {
    for (const auto& address : addresses) TROUPE_RETURN_IF_ERROR(ranks_.send(rank, address));
  }
  for (int rank = 0; rank < ranks_.count(); ++rank) TROUPE_RETURN_IF_ERROR(parsed(ranks_.receive(rank), rank).status());
  return ok();
}

ParallelCrew::~ParallelCrew() {
  for (int rank = 0; rank < ranks_.count(); ++rank) (void)ranks_.send(rank, "end");  // who is gone needs no telling
  ranks_ = {};
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

StatusOr<double> ParallelCrew::step_s() {
  std::this_thread::sleep_for(std::chrono::duration<double>(0.1 * step_s_));
  TROUPE_RETURN_IF_ERROR(ranks_.send(0, "step"));
  TROUPE_ASSIGN_OR_RETURN(const auto answer, parsed(ranks_.receive(0), 0));
  tokens_ = answer["tokens"].get<double>();
  return step_s_ = seconds(answer["step_ns"].get<std::int64_t>());
}

StatusOr<double> ParallelCrew::tokens_per_s() {
  TROUPE_ASSIGN_OR_RETURN(const double s, step_s());
  return tokens_ / s;
}

StatusOr<RankFacts> ParallelCrew::facts(int rank) {
  TROUPE_RETURN_IF_ERROR(ranks_.send(rank, "facts"));
  TROUPE_ASSIGN_OR_RETURN(const auto answer, parsed(ranks_.receive(rank), rank));
  RankFacts facts;
  facts.bytes_by_term = answer["bytes_by_term"].get<std::map<std::string, std::int64_t>>();
  facts.proportional_bytes = answer["proportional_bytes"].get<std::int64_t>();
  facts.sent_bytes = answer["sent_bytes"].get<std::int64_t>();
  for (const auto& [name, thread] : answer["threads"].items()) {
    facts.threads[name] = {thread["ran_s"].get<double>(), thread["waited_s"].get<double>()};
  }
  return facts;
}

StatusOr<std::map<std::string, RankFacts::Thread>> ParallelCrew::threads() {
  std::map<std::string, RankFacts::Thread> all;
  for (int rank = 0; rank < ranks_.count(); ++rank) {
    TROUPE_ASSIGN_OR_RETURN(const auto of_rank, facts(rank));
    for (const auto& [name, thread] : of_rank.threads) {
      all[name].ran_s += thread.ran_s;
      all[name].waited_s += thread.waited_s;
    }
  }
  return all;
}

}  // namespace troupe::bench
