// The reports of a job's ranks in Prometheus's text format (0.0.4): what /metrics serves. actors/inspect/README.md has the list of metrics.
//
// Threads: any; pure. Values are those of the reports (SCHEMA.md), times in seconds. Limits: a series for each rank, stream, actor and edge, nothing
// else that grows; what has the same labels twice is added up, for one such pair makes Prometheus refuse all.
// Invariants: every value is the JSON's (Prometheus.HasTheValuesOfTheReport), whatever names actors have (Prometheus.EscapesNamesOfAnyBytes).
#pragma once

#include <span>
#include <string>

#include "runtime/trace/report.h"

namespace troupe::trace {

struct JobLabels {
  std::string run, output;
  double started_unix_s = 0;
};

std::string to_prometheus(const JobLabels& job, std::span<const RankReport> reports);

}  // namespace troupe::trace
