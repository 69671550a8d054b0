// The ranks of a measured training job, seen from the process that measures: a step when it is asked for.
//
// Threads, ownership: as ForkedRanks. Errors: what a rank said, with its code; kResourceExhausted when the ranks' plans together need more
// memory than the machine has left, before anything is started.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/forked.h"
#include "tests/bench/parallel_rank.h"

namespace troupe::bench {

// What a rank has, or has done so far.
struct RankFacts {
  std::map<std::string, std::int64_t> bytes_by_term;  // of the device pool, now
  std::int64_t proportional_bytes = 0;                // resident, shared pages by their share
  std::int64_t sent_bytes = 0;                        // by the network devices of its namespace
  struct Thread {
    double ran_s = 0, waited_s = 0;  // on a core; ready to run without one
  };
  std::map<std::string, Thread> threads;  // by name, of those there are
};

class ParallelCrew {
 public:
  // `places` by rank, or none. A turn goes before the first that is asked for: pages, connections, code.
  // `program`: another build of this one, whose ranks are measured; they have no places.
  static StatusOr<std::unique_ptr<ParallelCrew>> start(PacedOptions job, const std::vector<RankPlace>& places = {}, const std::string& program = "");
  ~ParallelCrew();
  ParallelCrew(const ParallelCrew&) = delete;
  ParallelCrew& operator=(const ParallelCrew&) = delete;

  // Of a step that follows another without a pause, where there are several ranks (parallel_rank.h). A tenth of a step's time goes before:
  // what the job that was asked before still moves arrives meanwhile, and its threads sleep.
  StatusOr<double> step_s();
  StatusOr<double> tokens_per_s();  // of a step as step_s() measures it
  StatusOr<RankFacts> facts(int rank);
  StatusOr<std::map<std::string, RankFacts::Thread>> threads();  // of all ranks together
  pid_t pid(int rank) const { return ranks_.pid(rank); }

 private:
  ParallelCrew() = default;
  Status set_up(const PacedOptions& job, std::vector<RankPlace> places, const std::string& program);

  std::string folder_;
  double tokens_ = 0, step_s_ = 0;  // of a step, the last one
  ForkedRanks ranks_;
};

}  // namespace troupe::bench
