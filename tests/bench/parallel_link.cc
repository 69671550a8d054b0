// ZeRO-1 between two hosts whose link is so slow that communication would take 60 % of compute.
//
// Communication is what is reduced and gathered, zeros included: the link is no slower because they stay behind.
//
// On paper: gradients are complete with the last micro-batch's backward only, so with M micro-batches a replica that is 2/3 of 1/M of
// compute, the time in which the reduction can be hidden; the gather of the weights can be hidden in the next step's first forward, 1/3 of
// 1/M. Of the embedding's own gradient the rows of a step's tokens and positions travel.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/bench/linked_namespaces.h"
#include "tests/bench/pairs.h"
#include "tests/bench/parallel_crew.h"
#include "tests/bench/parallel_rows.h"

namespace troupe::bench {
namespace {

constexpr double kCommunicationOverCompute = 0.6;

// What a rank of two has to send in a step of ZeRO-1: half of the gradients away (fp32; a tied embedding has two), half of the weights out.
struct SentBytes {
  double gradients = 0, weights = 0;
  double zeros = 0;  // of the gradients, at the least
  double all() const { return gradients + weights; }
};
SentBytes sent_bytes(const plan::Plan& plan) {
  double elements = 0;
  for (const auto& block : plan.blocks) elements += static_cast<double>(block.elements);
  const auto& model = plan.model;
  const double second_use = model.tied_embeddings ? static_cast<double>(model.padded_vocabulary * model.hidden) : 0;
  const double tokens = static_cast<double>(plan.micro_batches * plan.geometry.rows());  // of a replica
  const double unseen = std::max(0.0, static_cast<double>(model.padded_vocabulary) - tokens) * static_cast<double>(model.hidden);
  return {.gradients = 4 * (elements + second_use) / 2,
          .weights = static_cast<double>(device::size_bytes(plan.geometry.compute)) * elements / 2,
          .zeros = 4 * unseen / 2};
}

}  // namespace

Status measure_slow_link(const ParallelOptions& options, Rows& rows) {
  const std::string name = "parallel.slow_link";
  const auto linked = LinkedNamespaces::create();
  if (!linked.ok()) {
    skip(rows, name, absl::StrCat("skipped: ", std::string(linked.status().message())));
    return ok();
  }
  LinkedNamespaces& link = **linked;
  const PacedOptions job = two_ranks(options, 1);
  // Or UCX would go by shared memory, which namespaces of the network do not part.
  const std::vector<std::pair<std::string, std::string>> over_tcp{{"UCX_TLS", "tcp,self"}};
  const auto started = ParallelCrew::start(
      job, {{.network_namespace = link.name(0), .environment = over_tcp}, {.network_namespace = link.name(1), .environment = over_tcp}});
  if (!started.ok()) return skipped(rows, name, started.status()) ? ok() : started.status();
  ParallelCrew& crew = **started;
  TROUPE_ASSIGN_OR_RETURN(const auto planned, plan_of(job));
  const SentBytes sent = sent_bytes(planned.plan);
  const double bytes = sent.all();

  const auto counted = [&]() -> StatusOr<double> {
    double most = 0;
    for (int rank = 0; rank < 2; ++rank) {
      TROUPE_ASSIGN_OR_RETURN(const auto facts, crew.facts(rank));
      most = std::max(most, static_cast<double>(facts.sent_bytes));
    }
    return most;
  };
  TROUPE_ASSIGN_OR_RETURN(const double counted_before, counted());
  std::vector<double> free_s;
  for (int i = 0; i < 3; ++i) {
    TROUPE_ASSIGN_OR_RETURN(free_s.emplace_back(), crew.step_s());
  }
  TROUPE_ASSIGN_OR_RETURN(const double counted_after, counted());
  const double counted_bytes = (counted_after - counted_before) / static_cast<double>(2 * free_s.size());  // two steps a turn

  const double bytes_per_s = bytes / (kCommunicationOverCompute * median(free_s));
  const double communication_s = bytes / bytes_per_s;
  const auto step_at = [&](double rate) -> StatusOr<double> {
    TROUPE_RETURN_IF_ERROR(link.limit(rate));
    return crew.step_s();
  };
  TROUPE_ASSIGN_OR_RETURN(auto pairs, in_turns(
                                          options.pairs, [&] { return step_at(bytes_per_s); }, [&] { return step_at(0); }));
  for (std::size_t i = 0; i < pairs.ratios.size(); ++i) pairs.ratios[i] = pairs.first[i] / std::max(pairs.second[i], communication_s);
  add_ratio(rows, name, 1.15, pairs,
            absl::StrCat("step over max(compute, communication), two processes of 1 thread, ZeRO-1, in two network namespaces joined by "
                         "veth and UCX over tcp: "
                         "compute is the step over the link without a limit, in turns; communication is what a rank has to send in a "
                         "step (its half of the gradients, fp32, of a tied embedding both uses', and of the weights, ",
                         job.dtype, "; zeros are counted, though they stay behind) over the rate that tc tbf gives each direction, set to ", kCommunicationOverCompute,
                         " of compute; at most; median of pairs; peer: seconds of compute"));
  rows.push_back({name + ".step_s", median(pairs.first), "s", 0, median(pairs.second), "with the limit; peer: without"});
  rows.push_back({name + ".rate", bytes_per_s * 8e-6, "Mbit/s", 0, 0, "of the limited link"});
  rows.push_back(
      {name + ".bytes", counted_bytes / bytes, "ratio", 0, bytes,
       "bytes that the larger sender's device counted in a step, headers included, over those of the definition; less than 1 where zeros "
       "stay behind; peer: the latter"});
  const double overlapped = 1.0 / planned.plan.micro_batches;
  const double gradient_s = kCommunicationOverCompute * sent.gradients / bytes;
  const double zeros_s = kCommunicationOverCompute * sent.zeros / bytes;
  const double reduction_left = std::max(0.0, gradient_s - zeros_s - overlapped * 2 / 3);
  const double gather_left = std::max(0.0, kCommunicationOverCompute - gradient_s - overlapped / 3);
  rows.push_back({name + ".bound", 1 + reduction_left + gather_left, "ratio", 0,
                  1 + reduction_left + kCommunicationOverCompute - gradient_s,
                  "on paper, compute 1: the reduction can hide in the last micro-batch's backward (2/3 of a micro-batch), the gather in "
                  "the next step's first "
                  "forward (1/3); peer: where the gather hides in nothing"});
  return ok();
}

}  // namespace troupe::bench
