// One of two replicas has a third of its core: how near to the ideal do both come together?
#include <unistd.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "tests/bench/cpu_quota.h"
#include "tests/bench/pairs.h"
#include "tests/bench/parallel_crew.h"
#include "tests/bench/parallel_rows.h"

namespace troupe::bench {
namespace {

constexpr double kSlow = 1.0 / 3;
constexpr int kStragglersMicroBatches = 12;

// A model of the same shape as GPT-2's, a fifth as large: 12 of its micro-batches take seconds, those of GPT-2 124M a minute.
PacedOptions straggler_job(const ParallelOptions& options, const std::string& balance) {
  PacedOptions job = two_ranks(options, 0);
  job.micro_batches = kStragglersMicroBatches;
  if (balance != "static") job.balance = balance;  // static is the default
  if (job.model == "gpt2-124m" && job.overrides.empty())
    job.overrides = {"model.layers=6",   "model.hidden=512",        "model.heads=8",
                     "model.kv_heads=8", "model.intermediate=2048", "model.vocab_size=8192"};
  return job;
}

Status measure_balance(const ParallelOptions& options, const std::string& balance, double bar, ParallelCrew& equals, Rows& rows) {
  const std::string name = "parallel.straggler." + balance;
  const auto crew = ParallelCrew::start(straggler_job(options, balance), {{.core = 0}, {.core = 1}});
  if (!crew.ok()) return skipped(rows, name, crew.status()) ? ok() : crew.status();
  const auto quota = CpuQuota::over((*crew)->pid(1), kSlow, absl::StrCat("bench-", getpid(), "-", balance));
  if (!quota.ok()) {
    skip(rows, name, absl::StrCat("skipped: ", std::string(quota.status().message())));
    return ok();
  }
  TROUPE_ASSIGN_OR_RETURN(auto pairs, in_turns(
                                          options.pairs, [&] { return (*crew)->tokens_per_s(); }, [&] { return equals.tokens_per_s(); }));
  constexpr double kIdeal = (1 + kSlow) / 2;
  for (auto& ratio : pairs.ratios) ratio /= kIdeal;
  add_ratio(rows, name, bar, pairs,
            absl::StrCat("tokens/s of 2 replicas, a core each, one with a third of its core (quota of a control group, in turns of ",
                         CpuQuota::kPeriodUs / 1000, " ms), parallelism.balance = ", balance,
                         ", over two thirds of those of the same replicas undisturbed (static): ", kStragglersMicroBatches,
                         " micro-batches a step, each of ", options.job.batch, " x ", options.job.seq_len, " tokens, ZeRO-0, ",
                         options.job.dtype, "; median of pairs of steps in turns; peer: tokens/s undisturbed"));
  return ok();
}

}  // namespace

Status measure_straggler(const ParallelOptions& options, Rows& rows) {
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
    skip(rows, "parallel.straggler", "skipped: two replicas with a core each need two cores");
    return ok();
  }
  const auto equals = ParallelCrew::start(straggler_job(options, "static"), {{.core = 0}, {.core = 1}});
  if (!equals.ok()) return skipped(rows, "parallel.straggler", equals.status()) ? ok() : equals.status();
  TROUPE_RETURN_IF_ERROR(measure_balance(options, "pull", 0.90, **equals, rows));
  return measure_balance(options, "static", 0, **equals, rows);
}

}  // namespace troupe::bench
