#include "actors/plan/plan.h"

#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "actors/plan/model_of.h"
#include "actors/plan/shard_memory.h"
#include "models/flops.h"

namespace troupe::plan {
namespace {

// What a process takes besides the pool: program, libraries, stacks, messages, files being written. Measured: 40 to 80 MiB.
constexpr std::int64_t kProcessBytes = 64ll << 20;
// The head's logits are kept below this many bytes of fp32, so that they stay near the caches.
constexpr std::int64_t kLogitsBytes = 96ll << 20;
// Batches that the loader may have read ahead of the first stage.
constexpr int kReadAhead = 2;

models::Recompute recompute_of(Recompute recompute) {
  switch (recompute) {
    case Recompute::kNone: return models::Recompute::kNone;
    case Recompute::kSelective: return models::Recompute::kSelective;
    case Recompute::kFull: return models::Recompute::kFull;
  }
  return models::Recompute::kNone;
}

// Layers shared out evenly, the first stages taking what is left over: the last one has the head.
std::vector<StageShape> place(const models::ModelConfig& model, const JobConfig& job, int micro_batches, const Placement& placement) {
  const int stages = job.parallelism.pipeline;
  const auto layers = static_cast<std::int32_t>(model.layers);
  std::vector<StageShape> shapes;
  std::int32_t next = 0;
  for (int i = 0; i < stages; ++i) {
    StageShape shape{.index = StageIndex(i), .stages = stages, .first_layer = next};
    next += layers / stages + (i < layers % stages ? 1 : 0);
    shape.end_layer = next;
    const bool gpipe = job.parallelism.schedule == ScheduleName::kGpipe;
    shape.in_flight = std::min(gpipe ? micro_batches : stages - i, micro_batches);
    shape.batch_credits = shape.in_flight + kReadAhead;
    shape.gradient_credits = i > 0 ? 2 : 0;
    shapes.push_back(shape);
  }
  for (int i = 0; i + 1 < stages; ++i) {
    auto& shape = shapes[static_cast<std::size_t>(i)];
    auto& after = shapes[static_cast<std::size_t>(i) + 1];
    shape.activation_credits = after.in_flight + 1;
    if (!placement.leaves(i)) continue;
    after.far_activations = shape.activation_credits;
    shape.far_gradients = after.gradient_credits;
  }
  return shapes;
}

std::vector<EdgePlan> edges_of(const Plan& plan) {
  const std::int64_t rows = plan.geometry.rows();
  const std::int64_t activation = rows * plan.model.hidden * device::size_bytes(plan.geometry.compute);
  const std::int64_t batch = (4 * rows + 2 * plan.geometry.batch) * 4;
  std::vector<EdgePlan> edges;
  for (const auto& stage : plan.stages) {
    const auto name = absl::StrCat("stage-", stage.index.value);
    const bool far = plan.placement.leaves(stage.index.value);
    edges.push_back({absl::StrCat("source.batch-", stage.index.value), name + ".batch", false, stage.batch_credits,
                     absl::StrCat(stage.in_flight, " in flight + ", kReadAhead, " read ahead"), batch});
    if (plan.evaluation_batches > 0) {
      edges.push_back({absl::StrCat("evaluator.batch-", stage.index.value), name + ".evaluation-batch", false, kEvaluationCredits,
                       "1 being read + 1 being written", batch});
    }
    if (stage.last()) continue;
    const auto next = absl::StrCat("stage-", stage.index.value + 1);
    edges.push_back({name + ".activation", next + ".activation", far, stage.activation_credits,
                     absl::StrCat(stage.activation_credits - 1, " held until the input gradient + 1 being written"), activation});
    edges.push_back({next + ".gradient", name + ".gradient", far, 2, "1 being read + 1 being written", activation});
    if (plan.evaluation_batches > 0) {
      edges.push_back({name + ".evaluation", next + ".evaluation", far, kEvaluationCredits, "1 being read + 1 being written", activation});
    }
  }
  return edges;
}

// Tokens whose logits exist at once: chunks of one size, a multiple of 32 rows, within kLogitsBytes where that is possible.
std::int64_t chunk_of(std::int64_t rows, std::int64_t padded_vocabulary) {
  const std::int64_t most = std::max<std::int64_t>(32, kLogitsBytes / (4 * padded_vocabulary) / 32 * 32);
  const std::int64_t chunks = (rows + most - 1) / most;
  return std::min(rows, ((rows + chunks - 1) / chunks + 31) / 32 * 32);
}

std::int64_t scratch_of(const Plan& plan, const kernels::Table& kernels, bool with_head) {
  const auto& m = plan.model;
  const auto& g = plan.geometry;
  std::int64_t scratch = 0;
  if (with_head) scratch = kernels::cross_entropy_scratch_bytes(plan.chunk_tokens, m.padded_vocabulary, m.hidden, plan.threads);
  const auto product = [&](std::int64_t in, std::int64_t out) {
    scratch = std::max(scratch, kernels.matmul_scratch_bytes(g.rows(), in, out, g.compute, plan.threads));
  };
  scratch = std::max(scratch, kernels.attention_scratch_bytes(g.seq_len, m.head_dim, plan.threads));
  product(m.hidden, m.qkv_width());
  product(m.attention_width(), m.hidden);
  product(m.hidden, m.up_width());
  product(m.intermediate, m.hidden);
  return scratch;
}

ProcessMemory memory_of(const Plan& plan, int part, const kernels::Table& kernels) {
  device::CountingAllocator count;
  for (const auto& stage : plan.stages_of(part)) StageMemory::take(plan.model, stage, plan.stage_options(stage), count);
  const auto count_shard = [&](const models::BlockLayout& block, bool snapshots) {
    // as for the replica whose part is the largest
    const auto parts = plan.share(0).parts(block.elements);
    int largest = 0;  // of the first group
    for (int replica = 1; replica < parts.members(); ++replica) {
      if (parts.size(replica) > parts.size(largest)) largest = replica;
    }
    ShardMemory::take(plan.model, block, plan.geometry.compute, snapshots, count, plan.share(largest));
  };
  for (const auto& block : plan.blocks_of(part)) count_shard(block, plan.snapshots);
  if (plan.copies_embedding(part)) count_shard(plan.blocks.front(), false);
  const std::int64_t scratch = scratch_of(plan, kernels, plan.stages_of(part).back().last());
  count.take("scratch", device::DType::kU8, {scratch});
  ProcessMemory memory{.bytes = count.bytes_by_term(), .scratch_bytes = scratch, .pool_bytes = count.total_bytes()};
  memory.bytes["process"] = kProcessBytes;
  memory.total_bytes = memory.pool_bytes + kProcessBytes;
  return memory;
}

void count_memory(Plan& plan, const kernels::Table& kernels) {
  for (int part = 0; part < plan.placement.parts; ++part) plan.memory.push_back(memory_of(plan, part, kernels));
  const auto& most = *std::max_element(plan.memory.begin(), plan.memory.end(),
                                       [](const auto& a, const auto& b) { return a.total_bytes < b.total_bytes; });
  plan.memory_bytes = most.bytes;
  plan.pool_bytes = most.pool_bytes;
  plan.total_bytes = most.total_bytes;
}

// In which processes a stage is, where that says something: ", in ranks 1 3".
std::string ranks_of(const Plan& plan, int stage) {
  if (plan.placement.parts == 1) return {};
  std::string text = plan.replicas > 1 ? ", in ranks" : ", in rank";
  for (const Rank rank : plan.placement.ranks_of_part(plan.placement.part_of_stage(stage))) absl::StrAppend(&text, " ", rank.value);
  return text;
}

std::string human(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 4) {
    bytes /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.*f %s", unit ? 2 : 0, bytes, units[unit]);
}

}  // namespace

Cluster Cluster::of_this_machine(const JobConfig& job) {
  Cluster cluster;
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  cluster.threads = job.device.threads > 0 ? job.device.threads : cores;
  cluster.memory_bytes = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  // a container may have less, and says so here ("max" is no number: no limit)
  std::int64_t limit = 0;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> limit) cluster.memory_bytes = std::min(cluster.memory_bytes, limit);
  return cluster;
}

std::span<const StageShape> Plan::stages_of(int part) const {
  const auto first = static_cast<std::size_t>(placement.first_stage(part)), end = static_cast<std::size_t>(placement.end_stage(part));
  return std::span(stages).subspan(first, end - first);
}

std::span<const models::BlockLayout> Plan::blocks_of(int part) const {
  const auto here = stages_of(part);
  const std::int32_t first = here.front().first() ? 0 : here.front().block(0).value;
  const std::int32_t end = here.back().last() ? model.blocks() : here.back().block(here.back().layers()).value;
  return std::span(blocks).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(end - first));
}

double Plan::layer_cost() const {
  const auto rows = static_cast<double>(geometry.rows());
  return rows * (2.0 * static_cast<double>(model.hidden * (model.qkv_width() + model.attention_width() + model.up_width() + model.intermediate)) +
                 2.0 * static_cast<double>(geometry.seq_len * model.attention_width()));
}

double Plan::head_cost() const { return 2.0 * static_cast<double>(geometry.rows() * model.padded_vocabulary * model.hidden); }

StatusOr<Plan> make_plan(const JobConfig& job, const Cluster& cluster, const kernels::Table& kernels) {
  Plan plan;
  TROUPE_ASSIGN_OR_RETURN(plan.model, model_of(job));
  if (job.parallelism.pipeline > plan.model.layers) {
    return absl::InvalidArgumentError(absl::StrCat("parallelism.pipeline = ", job.parallelism.pipeline, ": the model has ",
                                                   plan.model.layers, " layers, so at most ", plan.model.layers, " stages"));
  }
  TROUPE_ASSIGN_OR_RETURN(plan.placement, Placement::of(job.parallelism.data_parallel, job.parallelism.pipeline, cluster.processes));
  plan.geometry = {job.training.micro_batch, job.training.seq_len,
                   job.training.dtype == ComputeType::kBf16 ? device::DType::kBF16 : device::DType::kF32};
  plan.recompute = recompute_of(job.training.recompute);
  plan.global_batch = job.training.global_batch;
  plan.replicas = job.parallelism.data_parallel;
  plan.zero = job.parallelism.zero;
  plan.shard_group = job.parallelism.shard_group;
  plan.prefetch = job.parallelism.prefetch;
  plan.reshard_after_forward = job.parallelism.reshard_after_forward;
  plan.micro_batches = (plan.step_micro_batches() + plan.replicas - 1) / plan.replicas;
  plan.pulls = job.parallelism.balance == Balance::kPull;
  plan.evaluation_batches =
      job.validation.interval > 0 ? static_cast<int>(job.validation.steps * job.validation.batch / job.training.micro_batch) : 0;
  plan.threads = cluster.threads;
  plan.stages = place(plan.model, job, plan.micro_batches, plan.placement);
  for (std::int32_t block = 0; block < plan.model.blocks(); ++block) {
    plan.blocks.push_back(models::block_layout(plan.model, BlockIndex(block)));
  }
  plan.parameters = models::parameter_count(plan.model);
  plan.flops_per_step =
      models::training_flops_per_token(plan.model, plan.geometry.seq_len) * static_cast<double>(plan.tokens_per_step());
  plan.chunk_tokens = chunk_of(plan.geometry.rows(), plan.model.padded_vocabulary);
  plan.scratch_bytes = scratch_of(plan, kernels, true);
  plan.edges = edges_of(plan);
  count_memory(plan, kernels);
  TROUPE_ASSIGN_OR_RETURN(plan.rehearsal, rehearse(plan));
  return plan;
}

Status fits(const Plan& plan, const Cluster& cluster) {
  if (plan.total_bytes <= cluster.memory_bytes) return ok();
  std::int64_t state = 0;
  for (const char* term : {"parameters", "weights", "optimizer", "gradients", "snapshot"}) {
    if (auto it = plan.memory_bytes.find(term); it != plan.memory_bytes.end()) state += it->second;
  }
  std::string advice;
  if (state > cluster.memory_bytes) {
    advice = absl::StrCat("parameters, gradients and optimizer alone take ", human(static_cast<double>(state)),
                          ": choose a smaller model, or at least ", (state + cluster.memory_bytes - 1) / cluster.memory_bytes,
                          " machines like this one");
  } else {
    advice = absl::StrCat("activations and workspace take ", human(static_cast<double>(plan.total_bytes - state)),
                          ": lower training.micro_batch or training.seq_len, or set training.recompute = \"full\"");
  }
  return absl::ResourceExhaustedError(absl::StrCat("the plan needs ", human(static_cast<double>(plan.total_bytes)),
                                                   " in this process, the machine has ", human(static_cast<double>(cluster.memory_bytes)),
                                                   ": ", advice));
}

std::uint64_t fingerprint(const JobConfig& job) {
  JobConfig alike = job;
  alike.device = {};  // threads may differ
  const std::string text = resolved(alike);
  return XXH3_64bits(text.data(), text.size());
}

std::string describe(const Plan& plan, const Cluster& cluster) {
  const auto& m = plan.model;
  std::string text = absl::StrFormat(
      "model        %s: %d layers, hidden %d, %d heads (%d kv) of %d, intermediate %d, vocabulary %d (%d rows)\n"
      "parameters   %d\n"
      "step         %d sequences of %d tokens, on %d replicas (ZeRO-%d%s) in %d micro-batches of %d%s, %s\n"
      "cost         %.4g FLOPs a step = %s\n",
      std::string(models::name(m.family)), m.layers, m.hidden, m.heads, m.kv_heads, m.head_dim, m.intermediate, m.vocabulary,
      m.padded_vocabulary, plan.parameters, plan.global_batch, plan.geometry.seq_len, plan.replicas, plan.zero,
      plan.shard_group > 0 ? absl::StrCat(" in groups of ", plan.shard_group) : "", plan.pulls ? plan.step_micro_batches() : plan.micro_batches,
      plan.geometry.batch, plan.pulls ? " over all of them (pulled)" : "", std::string(device::name(plan.geometry.compute)), plan.flops_per_step, models::training_flops_formula());
  absl::StrAppend(&text, absl::StrFormat("schedule     rehearsed with %d micro-batches: %.4g FLOPs from a replica's first pass to its last, processes idle for %.1f %% of that\n",
                                         plan.rehearsal.micro_batches, plan.rehearsal.span_flops, 100 * plan.rehearsal.bubble_share));
  absl::StrAppend(&text, "\nplacement\n");
  for (const auto& stage : plan.stages) {
    device::CountingAllocator count;
    StageMemory::take(plan.model, stage, plan.stage_options(stage), count);
    absl::StrAppend(&text, absl::StrFormat("  stage-%d      %slayers %d..%d%s, at most %d of %d in flight (%s)%s\n", stage.index.value,
                                           stage.first() ? "embedding, " : "", stage.first_layer, stage.end_layer - 1, stage.last() ? ", head" : "",
                                           plan.rehearsal.in_flight[static_cast<std::size_t>(stage.index.value)], stage.in_flight,
                                           human(static_cast<double>(count.bytes_by_term().at("activations"))), ranks_of(plan, stage.index.value)));
  }
  absl::StrAppend(&text, "\nedges (credits = a term per holder)\n");
  for (const auto& edge : plan.edges) {
    absl::StrAppend(&text, absl::StrFormat("  %-24s -> %-26s %2d = %s, %s each%s\n", edge.from, edge.to, edge.credits, edge.credit_terms,
                                           human(static_cast<double>(edge.bytes_per_credit)),
                                           edge.far ? " on either side, to another process" : ""));
  }
  absl::StrAppend(&text, plan.placement.parts > 1 ? "\nmemory of the process that takes most\n" : "\nmemory of this process\n");
  for (const auto& [term, bytes] : plan.memory_bytes) {
    absl::StrAppend(&text, absl::StrFormat("  %-12s %s\n", term, human(static_cast<double>(bytes))));
  }
  absl::StrAppend(&text, absl::StrFormat("  %-12s %s of %s\n", "total", human(static_cast<double>(plan.total_bytes)),
                                         human(static_cast<double>(cluster.memory_bytes))));
  return text;
}

}  // namespace troupe::plan
