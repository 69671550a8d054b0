// The groups of rows of `troupe bench parallel`, each measured by itself; parallel.cc joins them.
#pragma once

#include <string>
#include <vector>

#include "tests/bench/parallel.h"

namespace troupe::bench {

using Rows = std::vector<BenchRow>;

Status measure_zero(const ParallelOptions& options, Rows& rows);
Status measure_slow_link(const ParallelOptions& options, Rows& rows);
Status measure_peers(const ParallelOptions& options, Rows& rows);
Status measure_memory(const ParallelOptions& options, Rows& rows);
Status measure_straggler(const ParallelOptions& options, Rows& rows);
Status measure_join(const ParallelOptions& options, Rows& rows);

// Instead of a figure: why there is none. A value and bar of 0.
void skip(Rows& rows, const std::string& name, const std::string& why);
// Whether `status` means that this build refuses the setting, or that the machine has no room for it; then the row says so.
bool skipped(Rows& rows, const std::string& name, const Status& status);

// The job over two processes.
PacedOptions two_ranks(const ParallelOptions& options, int zero);

}  // namespace troupe::bench
