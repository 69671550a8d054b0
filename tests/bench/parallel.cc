#include "tests/bench/parallel.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "runtime/base/check.h"
#include "tests/bench/parallel_rows.h"

namespace troupe::bench {

StatusOr<std::vector<BenchRow>> bench_parallel(const ParallelOptions& options) {
  TROUPE_CHECK(options.pairs >= 7) << options.pairs << " pairs: a median needs at least 7";
  using Measurement = Status (*)(const ParallelOptions&, Rows&);
  constexpr Measurement kMeasurements[] = {measure_zero, measure_slow_link, measure_peers, measure_memory, measure_straggler, measure_join};
  Rows rows;
  for (std::size_t i = 0; i < kParallelRows.size(); ++i) {
    if (std::find(options.rows.begin(), options.rows.end(), kParallelRows[i]) == options.rows.end()) continue;
    std::fprintf(stderr, "bench parallel: %s\n", kParallelRows[i].c_str());  // minutes pass between them
    TROUPE_RETURN_IF_ERROR(kMeasurements[i](options, rows));
  }
  return rows;
}

void skip(Rows& rows, const std::string& name, const std::string& why) { rows.push_back({name, 0, "ratio", 0, 0, why}); }

bool skipped(Rows& rows, const std::string& name, const Status& status) {
  if (absl::IsInvalidArgument(status)) {
    skip(rows, name, absl::StrCat("not supported: ", std::string(status.message())));
    return true;
  }
  if (absl::IsResourceExhausted(status)) {
    skip(rows, name, absl::StrCat("skipped: ", std::string(status.message())));
    return true;
  }
  return false;
}

PacedOptions two_ranks(const ParallelOptions& options, int zero) {
  PacedOptions job = options.job;
  job.threads = 1;
  job.replicas = 2;
  job.zero = zero;
  return job;
}

}  // namespace troupe::bench
