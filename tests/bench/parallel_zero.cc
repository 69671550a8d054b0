// ZeRO-0 to 3 by two processes against the same work by the threads of one.
#include "absl/strings/str_cat.h"
#include "tests/bench/pairs.h"
#include "tests/bench/parallel_crew.h"
#include "tests/bench/parallel_rows.h"

namespace troupe::bench {

Status measure_zero(const ParallelOptions& options, Rows& rows) {
  constexpr double kBars[] = {0.90, 0.90, 0.86, 0.82};
  PacedOptions alone = options.job;
  alone.threads = 2;
  const auto one = ParallelCrew::start(alone);
  if (!one.ok()) return skipped(rows, "parallel.zero", one.status()) ? ok() : one.status();
  for (int zero = 0; zero <= 3; ++zero) {
    const std::string name = absl::StrCat("parallel.zero-", zero);
    const auto two = ParallelCrew::start(two_ranks(options, zero));
    if (!two.ok()) {
      if (!skipped(rows, name, two.status())) return two.status();
      continue;
    }
    TROUPE_ASSIGN_OR_RETURN(const auto pairs,
                            in_turns(options.pairs, [&] { return (*two)->tokens_per_s(); }, [&] { return (*one)->tokens_per_s(); }));
    const auto& job = options.job;
    add_ratio(rows, name, kBars[zero], pairs,
              absl::StrCat("tokens/s of 2 processes of 1 thread, joined by UCX, ZeRO-", zero, ", over 1 process of 2 threads: ", job.model, ", ",
                           job.dtype, ", ", job.micro_batches, " micro-batches a step over all, each of ", job.batch, " sequences of ", job.seq_len,
                           " tokens; a step is from its opening to the last replica's update; median of pairs of steps in turns; peer: the one process's tokens/s"));
    rows.push_back({name + ".tokens_per_s", median(pairs.first), "tokens/s", 0, median(pairs.second), "the two processes' median, together"});
  }
  return ok();
}

}  // namespace troupe::bench
