// A training program written as an actor graph by hand. The model learns to copy: each sample is random letters, a bar, the same letters
// again; only the second half counts. No config file, no corpus, no checkpoint: what `troupe train` adds to this graph is left out.
//
//   ledger --OpenStep--> copy-task ==Batch==> stage (forward, loss, backward) --StepLossMeasured--> ledger
//                                             stage --BlockGradientReady--> shards --NormMeasured--> ledger --StepDecided--> shards
//
// Ready-made are the stage, the parameter shards and the device loop. Own are the source, which makes its samples, and the ledger, which
// opens steps and decides updates. Both are actors: they react to messages and never wait.
//
// Use: train_by_hand [steps, default 100]
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "actors/plan/plan.h"
#include "actors/plan/shard_memory.h"
#include "actors/train/device_loop.h"
#include "actors/train/parameter_shard.h"
#include "actors/train/stage.h"
#include "kernels/cpu/cpu.h"
#include "runtime/actor/system.h"
#include "runtime/base/rng.h"
#include "runtime/device/host_stream.h"

using namespace troupe;

namespace {

constexpr std::uint64_t kSeed = 1;
constexpr int kLetters = 16;  // tokens 0..15; 16 is the bar
constexpr int kHalf = 12;     // letters of a sample
// Where a config file would stand otherwise.
plan::JobConfig settings() {
  plan::JobConfig job;
  job.job.output = "unused";
  job.device.threads = 1;
  job.model.family = "llama";
  job.model.vocab_size = kLetters + 1;
  job.model.layers = 2;
  job.model.hidden = 64;
  job.model.heads = 4;
  job.model.intermediate = 128;
  job.model.max_seq_len = 2 * kHalf;
  job.training.seq_len = 2 * kHalf;
  job.training.micro_batch = 16;
  job.training.global_batch = 32;
  job.training.dtype = plan::ComputeType::kFp32;
  job.optimizer.lr = 3e-3;
  plan::complete(job, "train_by_hand");
  return job;
}

// Makes micro-batches of the copy task, ahead of the stage as far as its credits go, and sends those of open steps. Making one is an
// enqueued operation on a stream of its own: a handler computes nothing.
class CopyTask : public actor::Actor {
 public:
  struct Made {};
  CopyTask(const plan::Plan& plan, plan::StageMemory& memory, device::Stream& stream) : plan_(plan), memory_(memory), stream_(stream) {
    on(&CopyTask::open);
    on(&CopyTask::made);
    batches.on_credit(&CopyTask::make_what_may);
  }
  actor::Out<actors::Batch> batches{*this, "batches"};

 private:
  void started() override { make_what_may(); }
  void open(actors::OpenStep message) {
    opened_ += plan_.micro_batches;
    (void)message;
    send_what_is_open();
  }
  void made(Made) {
    ++made_count_;
    send_what_is_open();
  }

  void make_what_may() {
    while (batches.ready()) {
      const actor::OutSlot slot = batches.take();
      slots_.push_back(slot);
      // The slot's buffers may still be read by the pass that had them before.
      if (slot.reusable_after.recorded()) stream_.wait(slot.reusable_after);
      const auto& inputs = memory_.inputs[static_cast<std::size_t>(slot.index)];
      stream_.enqueue([inputs, geometry = plan_.geometry, number = number_](device::StreamContext&) { fill(inputs, geometry, number); });
      stream_.notify([me = self()](device::StreamContext&) { me.send(Made{}); });
      ++number_;
    }
  }

  // Micro-batch `number`, a function of the seed and the number alone: so a run repeats bit by bit.
  static void fill(const models::MicroBatchInputs& inputs, const models::Geometry& geometry, std::uint64_t number) {
    const RandomStream random({.seed = kSeed, .step = static_cast<std::int64_t>(number)});
    const auto length = geometry.seq_len;
    auto* tokens = inputs.tokens.view().data<std::int32_t>();
    auto* targets = inputs.targets.view().data<std::int32_t>();
    for (std::int64_t row = 0; row < geometry.batch; ++row) {
      const auto letter = [&](std::int64_t i) {
        return static_cast<std::int32_t>(random.at(static_cast<std::uint64_t>(row * kHalf + i)) % kLetters);
      };
      for (std::int64_t t = 0; t < length; ++t) {
        const auto at = row * length + t;
        // letters, bar, letters but the last; the target of the bar is the first letter, and so on
        tokens[at] = t < kHalf ? letter(t) : t == kHalf ? kLetters : letter(t - kHalf - 1);
        targets[at] = t < kHalf ? -1 : letter(t - kHalf);  // -1 counts nothing
        inputs.positions.view().data<std::int32_t>()[at] = static_cast<std::int32_t>(t);
        inputs.document_start.view().data<std::int32_t>()[at] = 0;
      }
      kernels::put_sample_id(inputs.sample_ids.view().data<std::int32_t>(), row, row);
    }
  }

  void send_what_is_open() {
    for (; sent_ < std::min(opened_, made_count_); ++sent_) {
      const actor::OutSlot slot = slots_.front();
      slots_.erase(slots_.begin());
      const StepId step(sent_ / plan_.micro_batches + 1);
      const MicroBatchId micro_batch(static_cast<std::int32_t>(sent_ % plan_.micro_batches));
      const bool last = micro_batch.value + 1 == plan_.micro_batches;
      batches.send(slot, {step, micro_batch, memory_.inputs[static_cast<std::size_t>(slot.index)], last});
    }
  }

  const plan::Plan& plan_;
  plan::StageMemory& memory_;
  device::Stream& stream_;
  std::vector<actor::OutSlot> slots_;  // being made or made, in order
  std::uint64_t number_ = 0;
  std::int64_t opened_ = 0, made_count_ = 0, sent_ = 0;
};

// Opens a step when the weights of the one before are there, and decides its update when loss and all norms are known.
class CopyLedger : public actor::Actor {
 public:
  CopyLedger(std::int64_t steps, double lr) : steps_(steps), lr_(lr) {
    on(&CopyLedger::loss_measured);
    on(&CopyLedger::norm_measured);
    on(&CopyLedger::updated);
  }
  void connect_to(actor::Ref source, std::vector<actor::Ref> shards) {
    source_ = std::move(source);
    shards_ = std::move(shards);
  }

 private:
  void loss_measured(actors::StepLossMeasured message) {
    total_ = message.total;
    loss_known_ = true;
    decide_if_known();
  }
  void norm_measured(actors::NormMeasured message) {
    squares_ += message.squares;
    ++norms_;
    decide_if_known();
  }
  void decide_if_known() {
    if (!loss_known_ || norms_ < shards_.size()) return;
    const double tokens = total_.tokens, norm = std::sqrt(squares_) / tokens;
    if (step_ == 1 || step_ % 25 == 0) {
      std::printf("step %lld  loss %.4f  norm %.3f\n", static_cast<long long>(step_), total_.loss / tokens, norm);
    }
    const double clip = norm > 1 ? 1 / norm : 1;
    for (const auto& shard : shards_) send(shard, actors::StepDecided{StepId(step_), false, step_, lr_, clip / tokens});
  }
  // Sent by every shard at the start, and after each update.
  void updated(actors::ShardUpdated) {
    if (++updated_ < shards_.size()) return;
    updated_ = norms_ = 0;
    squares_ = 0;
    loss_known_ = false;
    if (step_++ == steps_) {
      finish_job();
      return;
    }
    send(source_, actors::OpenStep{StepId(step_)});
  }

  const std::int64_t steps_;
  const double lr_;
  actor::Ref source_;
  std::vector<actor::Ref> shards_;
  std::int64_t step_ = 0;
  actors::LossTotal total_;
  bool loss_known_ = false;
  std::size_t norms_ = 0, updated_ = 0;
  double squares_ = 0;
};

Status train(std::int64_t steps) {
  const plan::JobConfig job = settings();
  TROUPE_RETURN_IF_ERROR(plan::validate(job));
  const auto& kernels = kernels::cpu::table();
  TROUPE_ASSIGN_OR_RETURN(plan::Plan plan, plan::make_plan(job, plan::Cluster::of_this_machine(job), kernels));

  // Memory, all of it before the first step: the pool has the size that the plan says.
  device::BufferPool pool(plan.pool_bytes);
  device::PoolAllocator from(pool);
  plan::StageMemory stage_memory = plan::StageMemory::take(plan.model, plan.stages[0], plan.stage_options(plan.stages[0]), from);
  std::vector<plan::ShardMemory> shard_memory;
  for (const auto& block : plan.blocks) {
    shard_memory.push_back(plan::ShardMemory::take(plan.model, block, plan.geometry.compute, plan.snapshots, from));
  }

  // Streams die before the system: what they still run posts to its actors.
  actor::System system;
  const SteadyClock clock;
  device::HostStream compute("compute", plan.threads, pool.take("scratch", plan.scratch_bytes));
  device::HostStream copy("copy", 1), loader("loader", 1);

  // The actors.
  auto& device = system.add<actors::DeviceLoop>("device", compute, clock);
  actors::Stage::Setup stage_setup{.plan = plan, .shape = plan.stages[0], .memory = stage_memory, .kernels = kernels, .stream = compute,
                                   .seed = kSeed};
  std::vector<actors::ParameterShard*> shards;
  std::vector<actor::Ref> shard_refs;
  for (std::size_t i = 0; i < plan.blocks.size(); ++i) {
    const auto& block = plan.blocks[i];
    auto& memory = shard_memory[i];
    shards.push_back(&system.add<actors::ParameterShard>(
        "shard-" + std::to_string(i),
        actors::ParameterShard::Setup{.model = plan.model, .layout = block, .memory = memory, .kernels = kernels, .compute = compute,
                                      .copy = copy, .optimizer = job.optimizer, .seed = kSeed}));
    shard_refs.push_back(shards.back()->self());
    stage_setup.blocks.push_back({models::BlockWeights(block, memory.weights.view()), models::BlockGradients(block, memory.gradient.view())});
    stage_setup.shards.push_back(shard_refs.back());
  }
  // The head's projection to the vocabulary is a parameter of the last block.
  stage_setup.projection = models::BlockWeights(plan.blocks.back(), shard_memory.back().weights.view())[models::Role::kHead];
  stage_setup.projection_gradient = models::BlockGradients(plan.blocks.back(), shard_memory.back().gradient.view())[models::Role::kHead];
  auto& stage = system.add<actors::Stage>("stage", std::move(stage_setup));
  auto& source = system.add<CopyTask>("copy-task", plan, stage_memory, loader);
  auto& ledger = system.add<CopyLedger>("ledger", steps, job.optimizer.lr);

  // Who knows whom: one edge with credits, and references for control messages.
  connect(source.batches, stage.batch, {.credits = plan.stages[0].batch_credits});
  stage.connect_to(device.self(), ledger.self());
  for (auto* shard : shards) shard->connect_to(device.self(), ledger.self(), {}, {});
  ledger.connect_to(source.self(), shard_refs);

  system.start();
  return system.wait();
}

}  // namespace

int main(int argc, char** argv) {
  const long steps = argc > 1 ? std::atol(argv[1]) : 100;
  if (steps < 1) {
    std::fprintf(stderr, "use: train_by_hand [steps, at least 1]\n");
    return 2;
  }
  const Status status = train(steps);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
