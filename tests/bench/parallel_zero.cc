// ZeRO-0 to 3 by two processes against the same work by the threads of one.
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/bench/pairs.h"
#include "tests/bench/parallel_crew.h"
#include "tests/bench/parallel_rows.h"

namespace troupe::bench {
namespace {

using Threads = std::map<std::string, RankFacts::Thread>;

// What the threads of a job did in `steps` steps; a thread of less than a thousandth is left out.
struct Spent {
  double ran_s = 0, waited_s = 0;  // a step
  std::string by_thread;
};
Spent spent(const Threads& before, const Threads& after, int steps) {
  Spent spent;
  for (const auto& [name, thread] : after) {
    const auto old = before.find(name);
    const double ran_s = (thread.ran_s - (old == before.end() ? 0 : old->second.ran_s)) / steps;
    spent.ran_s += ran_s;
    spent.waited_s += (thread.waited_s - (old == before.end() ? 0 : old->second.waited_s)) / steps;
    if (ran_s > 1e-3) absl::StrAppend(&spent.by_thread, absl::StrFormat("%s%s %.3f", spent.by_thread.empty() ? "" : ", ", name, ran_s));
  }
  return spent;
}

Status measure_stage(const ParallelOptions& options, int zero, double bar, ParallelCrew& one, Rows& rows) {
  const std::string name = absl::StrCat("parallel.zero-", zero);
  const auto two = ParallelCrew::start(two_ranks(options, zero));
  if (!two.ok()) return skipped(rows, name, two.status()) ? ok() : two.status();
  TROUPE_ASSIGN_OR_RETURN(const auto two_before, (*two)->threads());
  TROUPE_ASSIGN_OR_RETURN(const auto one_before, one.threads());
  TROUPE_ASSIGN_OR_RETURN(const auto pairs, in_turns(
                                                options.pairs, [&] { return (*two)->tokens_per_s(); }, [&] { return one.tokens_per_s(); }));
  TROUPE_ASSIGN_OR_RETURN(const auto two_after, (*two)->threads());
  TROUPE_ASSIGN_OR_RETURN(const auto one_after, one.threads());
  const auto& job = options.job;
  add_ratio(
      rows, name, bar, pairs,
      absl::StrCat("tokens/s of 2 processes of 1 thread, joined by UCX, ZeRO-", zero, ", over 1 process of 2 threads: ", job.model, ", ",
                   job.dtype, ", ", job.micro_batches, " micro-batches a step over all, each of ", job.batch, " sequences of ", job.seq_len,
                   " tokens; a step is from its opening to the last replica's update and follows another without a pause, whose weights "
                   "may still be on their way; median of pairs of steps in turns; peer: the one process's tokens/s"));
  rows.push_back({name + ".tokens_per_s", median(pairs.first), "tokens/s", 0, median(pairs.second), "the two processes' median, together"});
  const Spent theirs = spent(two_before, two_after, 2 * options.pairs),
              its = spent(one_before, one_after, options.pairs);  // two steps a turn, and one
  rows.push_back({name + ".processor_s", theirs.ran_s, "s", 0, its.ran_s,
                  absl::StrCat("processor seconds a step of both processes (by thread: ", theirs.by_thread, "); peer: of the one (",
                               its.by_thread, "); where nothing waits for anything, the ratio of tokens/s is peer over value")});
  rows.push_back({name + ".waited_s", theirs.waited_s, "s", 0, its.waited_s,
                  "seconds a step in which their threads could have run and had no core, summed; far above a hundredth of a step: others "
                  "used the processors"});
  return ok();
}

}  // namespace

Status measure_zero(const ParallelOptions& options, Rows& rows) {
  constexpr double kBars[] = {0.90, 0.90, 0.86, 0.82};
  PacedOptions alone = options.job;
  alone.threads = 2;
  const auto one = ParallelCrew::start(alone);
  if (!one.ok()) return skipped(rows, "parallel.zero", one.status()) ? ok() : one.status();
  for (int zero = 0; zero <= 3; ++zero) TROUPE_RETURN_IF_ERROR(measure_stage(options, zero, kBars[zero], **one, rows));
  return ok();
}

}  // namespace troupe::bench
