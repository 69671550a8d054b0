// Which replica computed which micro-batches, step by step, as metrics.jsonl of a run with parallelism.balance = "pull" has it.
//
// Threads: a value. Errors of read: kNotFound; kInvalidArgument, naming file, line, and what to do: a line without an assignment, another
// number of replicas, a micro-batch that is missing or there twice, steps that are missing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"

namespace troupe::actors {

class AssignmentRecord {
 public:
  // Of the steps `first` to `last`, each of `micro_batches` over `replicas`; other lines are not looked at.
  static StatusOr<AssignmentRecord> read(const std::string& path, StepId first, StepId last, int replicas, int micro_batches);

  // In the order in which the replica computed them; a bug for a step that was not read.
  const std::vector<std::int32_t>& share(StepId step, int replica) const;

 private:
  std::map<StepId, std::vector<std::vector<std::int32_t>>> steps_;  // by replica
};

}  // namespace troupe::actors
