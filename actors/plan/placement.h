// Which process does what: the positions of a job, data_parallel x pipeline, lie replica-major (position = replica * stages + stage), and
// each process hosts consecutive ones. So a replica is one process, or its stages are cut evenly over several: its parts.
//
//   data_parallel = 2, pipeline = 4, 4 processes:  rank 0 stages 0 1 of replica 0 | rank 1 stages 2 3 | rank 2 stages 0 1 of replica 1 ...
//
// The ranks that host the same stages, one of each replica, are a data-parallel group.
// Threads: any; a value. Errors: kInvalidArgument for a number of processes that does not work, with those that do; a rank, part or stage that
// there is not is the caller's bug and not looked for.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"

namespace troupe::plan {

struct Placement {
  int replicas = 1, stages = 1;
  int parts = 1;                       // processes of a replica; divides stages

  // 0 processes: one for each replica.
  static StatusOr<Placement> of(int replicas, int stages, int processes);

  int world() const { return replicas * parts; }
  int replica_of(Rank rank) const { return rank.value / parts; }
  int part_of(Rank rank) const { return rank.value % parts; }
  Rank rank_of(int replica, int part) const { return Rank(replica * parts + part); }

  int first_stage(int part) const { return part * (stages / parts); }
  int end_stage(int part) const { return first_stage(part + 1); }
  int part_of_stage(int stage) const { return stage / (stages / parts); }
  // The edge to the next stage goes to another process.
  bool leaves(int stage) const { return stage + 1 < stages && part_of_stage(stage) != part_of_stage(stage + 1); }

  // One of each replica, in their order.
  std::vector<Rank> ranks_of_part(int part) const;
  // What `processes` may be, for people: "2, 4 or 8".
  std::string worlds() const;
};

}  // namespace troupe::plan
