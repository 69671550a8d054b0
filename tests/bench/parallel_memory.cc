// What a rank of four holds from step to step, over what ZeRO's stage says it must.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "actors/plan/plan.h"
#include "tests/bench/parallel_crew.h"
#include "tests/bench/parallel_rows.h"

namespace troupe::bench {
namespace {

constexpr int kMemoryRanks = 4;

// Bytes of a rank that live through a step: a working copy of each parameter, its master, its two moments, a sum of its gradients for
// each use; whole, or a part of 1 / ranks.
double formula_bytes(const plan::Plan& plan, int zero) {
  const auto& model = plan.model;
  double parameters = 0;
  for (const auto& block : plan.blocks) parameters += static_cast<double>(block.elements);
  const double second_use = model.tied_embeddings ? static_cast<double>(model.padded_vocabulary * model.hidden) : 0;
  const auto held = [&](bool split) { return split ? 1.0 / kMemoryRanks : 1.0; };
  const bool mixed = plan.geometry.compute != device::DType::kF32;  // else the master is what computes
  const double weights = mixed ? 2 * held(zero >= 3) : 4 * held(zero >= 3);
  const double optimizer = (mixed ? 12 : 8) * held(zero >= 1);
  return parameters * (weights + optimizer) + (parameters + second_use) * 4 * held(zero >= 2);
}

}  // namespace

Status measure_memory(const ParallelOptions& options, Rows& rows) {
  for (int zero = 0; zero <= 3; ++zero) {
    const std::string name = absl::StrCat("parallel.memory.zero-", zero);
    PacedOptions job = options.job;
    job.threads = 1;
    job.replicas = kMemoryRanks;
    job.micro_batches = kMemoryRanks;
    job.batch = 1;  // of activations, which are not measured, little
    job.seq_len = std::min(job.seq_len, 128);
    job.zero = zero;
    const auto crew = ParallelCrew::start(job);
    if (!crew.ok()) {
      if (!skipped(rows, name, crew.status())) return crew.status();
      continue;
    }
    TROUPE_ASSIGN_OR_RETURN(const auto planned, plan_of(job));
    double most = 0, most_resident = 0, gathered = 0;
    for (int rank = 0; rank < kMemoryRanks; ++rank) {
      TROUPE_ASSIGN_OR_RETURN(auto facts, (*crew)->facts(rank));
      double persistent = 0;
      for (const char* term : {"weights", "parameters", "optimizer", "gradients"})
        persistent += static_cast<double>(facts.bytes_by_term[term]);
      most = std::max(most, persistent);
      gathered = std::max(gathered, static_cast<double>(facts.bytes_by_term["gathered weights"]));
      most_resident = std::max(most_resident, static_cast<double>(facts.proportional_bytes));
    }
    const double formula = formula_bytes(planned.plan, zero);
    rows.push_back(
        {name, most / formula, "ratio", 1.05, formula,
         absl::StrCat(
             "bytes that the device pool of a rank holds from step to step as weights, parameters (master), optimizer and gradients, "
             "the most of ",
             kMemoryRanks,
             " ranks, over the formula: per parameter 2 B weights + 12 B master and moments + 4 B gradient (fp32: 4 + 8 + 4), of "
             "which ZeRO-1 splits master and moments, 2 the gradient too, 3 all; a tied embedding has a gradient per use; at most; peer: "
             "the formula's bytes; ",
             job.model, ", ", job.dtype)});
    if (gathered > 0) {
      std::int64_t largest = 0;
      for (const auto& block : planned.plan.blocks) largest = std::max(largest, block.elements);
      const double allowed = static_cast<double>((planned.plan.prefetch + 1) * largest * device::size_bytes(planned.plan.geometry.compute));
      rows.push_back(
          {name + ".gathered", gathered / allowed, "ratio", 1, allowed,
           absl::StrCat("bytes of the rooms in which weights can lie gathered at once, over (prefetch + 1) largest blocks; prefetch ",
                        planned.plan.prefetch, "; at most; peer: bytes of the latter")});
    }
    rows.push_back({name + ".resident", most_resident, "B", 0, 0,
                    "proportional resident bytes of the largest rank after a step, with activations, snapshot and code"});
  }
  return ok();
}

}  // namespace troupe::bench
