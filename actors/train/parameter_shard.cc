#include "actors/train/parameter_shard.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace troupe::actors {

using device::StreamContext, device::TensorView;

ParameterShard::ParameterShard(Setup setup) : setup_(std::move(setup)), step_(setup_.start) {
  on(&ParameterShard::gradient_ready);
  on(&ParameterShard::collective_done);
  on(&ParameterShard::decided);
  on(&ParameterShard::snapshot_requested);
  on(&ParameterShard::task_done);
}

void ParameterShard::connect_to(actor::Ref device, actor::Ref replica, actor::Ref writer, actor::Ref replicas) {
  device_ = std::move(device);
  replica_ = std::move(replica);
  writer_ = std::move(writer);
  replicas_ = std::move(replicas);
}

void ParameterShard::started() { run(publish(), Work::kPublish); }

void ParameterShard::run(task::Task<> body, Work work) {
  TROUPE_CHECK(!task_) << name() << " was asked for two things at once";
  task_ = std::make_unique<DeviceTask>(std::move(body), self(), static_cast<std::uint64_t>(work));
  send(device_, RunTask{task_.get()});
}

void ParameterShard::gradient_ready(BlockGradientReady message) {
  if (++uses_ready_ < setup_.uses) return;
  uses_ready_ = 0;
  run(add_uses(message.step), Work::kAddUses);
}

// Either answer may come before the device loop tells that the task which asked has ended.
void ParameterShard::collective_done(CollectiveDone message) {
  const auto over = static_cast<Over>(message.operation.value % 2);
  const StepId step(message.operation.value / 2 / setup_.model.blocks());
  if (over == Over::kWeights && task_) {
    early_weights_ = true;
  } else if (over == Over::kWeights) {
    updated();
  } else if (task_) {
    early_sum_ = step;
  } else {
    run(measure_norm(step), Work::kNorm);
  }
}

void ParameterShard::decided(StepDecided message) {
  step_ = message.step;
  if (!summed_) {
    // The ledger knows what it needs of this block before we do: from another replica, or from the stream.
    early_decision_ = message;
  } else {
    run(update(message), Work::kUpdate);
  }
}

void ParameterShard::snapshot_requested(SnapshotRequested message) {
  TROUPE_CHECK(message.step == step_) << name() << " is at step " << step_ << ", a snapshot of " << message.step << " was asked";
  auto& m = setup_.memory;
  setup_.copy.wait(updated_);
  const auto copy = [&](TensorView from, TensorView to) {
    setup_.copy.enqueue([from, to](StreamContext&) { std::memcpy(to.raw(), from.raw(), static_cast<std::size_t>(from.bytes())); });
  };
  copy(m.of_held(m.master, m.own_begin, m.own_end), m.snapshot_master);
  copy(m.of_held(m.m, m.own_begin, m.own_end), m.snapshot_m);
  copy(m.of_held(m.v, m.own_begin, m.own_end), m.snapshot_v);
  copied_ = setup_.copy.record();
  setup_.copy.notify([writer = writer_, taken = SnapshotTaken{message.step, setup_.layout.block}](StreamContext&) {
    writer.send(taken);
  });
}

void ParameterShard::task_done(TaskDone message) {
  task_.reset();
  switch (static_cast<Work>(message.token)) {
    case Work::kAddUses:
      if (setup_.share.replicas > 1) {  // the stream itself asks for the sum over replicas
        if (early_sum_) run(measure_norm(*std::exchange(early_sum_, std::nullopt)), Work::kNorm);
        return;
      }
      [[fallthrough]];
    case Work::kNorm:  // the stream itself tells the value
      summed_ = true;
      if (early_decision_) run(update(*std::exchange(early_decision_, std::nullopt)), Work::kUpdate);
      return;
    case Work::kUpdate:
      summed_ = false;
      updated_ = message.done;
      if (!gathers_) return updated();
      if (std::exchange(early_weights_, false)) updated();
      return;
    case Work::kPublish:
      updated_ = message.done;
      return updated();
  }
}

void ParameterShard::updated() { send(replica_, ShardUpdated{step_, setup_.layout.block}); }

task::Turn ParameterShard::turn(StepId step, double bytes_per_element) const {
  // A byte moved takes about as long as ten operations of a matrix product.
  return {.key = {.urgency = task::Urgency::kUpdate, .step = step.value, .position = setup_.layout.block.value},
          .cost = 10 * bytes_per_element * static_cast<double>(setup_.layout.elements)};
}

task::Task<> ParameterShard::publish() {
  co_await turn(setup_.start, 10);
  auto& m = setup_.memory;
  // Where the master is a part only, the first values lie in the gradient's room. As restore() has it: a small block's one chunk is whole.
  const bool split = m.held_end - m.held_begin < setup_.layout.elements;
  const TensorView first = split ? m.gradient.view() : m.master.view();
  if (!setup_.restored) {
    setup_.compute.enqueue([this, first](StreamContext&) { models::initialize(setup_.model, setup_.layout, setup_.seed, first); });
  }
  const auto copy = [&](TensorView from, TensorView to) {
    if (from.raw() == to.raw()) return;
    setup_.compute.enqueue([from, to](StreamContext&) { std::memcpy(to.raw(), from.raw(), static_cast<std::size_t>(from.bytes())); });
  };
  if (m.weights.type() == first.type()) {
    copy(first, m.weights);  // the master lies in it
  } else {
    setup_.kernels.cast(setup_.compute, {m.weights, first});
    copy(first.rows(m.held_begin - (split ? 0 : m.held_begin), m.held_end - (split ? 0 : m.held_begin)), m.master);
  }
  if (split) setup_.kernels.fill(setup_.compute, {m.gradient, 0});
}

// With one replica the sum is complete then: its norm follows in the same turn.
task::Task<> ParameterShard::add_uses(StepId step) {
  const auto& share = setup_.share;
  co_await turn(step, share.replicas > 1 ? 0 : 4);
  auto& m = setup_.memory;
  if (m.head_gradient) {
    const auto rows = models::BlockGradients(setup_.layout, m.gradient)[models::Role::kTokenEmbedding];
    setup_.kernels.add(setup_.compute, {rows, rows, m.head_gradient});
    setup_.kernels.fill(setup_.compute, {m.head_gradient, 0});
  }
  if (share.replicas == 1) {
    enqueue_norm(step);
  } else {
    enqueue_collective(step, Over::kGradient,
                       share.splits_optimizer() ? comm::CollectiveKind::kReduceScatter : comm::CollectiveKind::kAllReduce, m.gradient);
  }
}

void ParameterShard::enqueue_collective(StepId step, Over over, comm::CollectiveKind kind, const device::Tensor& flat) {
  setup_.compute.notify([this, step, over, kind, data = flat.view()](StreamContext&) {
    const auto block = setup_.layout.block.value;
    replicas_.send(CollectiveRequested{
        .operation = comm::OperationId((step.value * setup_.model.blocks() + block) * 2 + static_cast<std::int64_t>(over)),
        .collective = {.kind = kind, .type = data.type(), .data = static_cast<std::byte*>(data.raw()),
                       .parts = setup_.share.parts(data.elements()),
                       .what = absl::StrCat(over == Over::kGradient ? "gradient" : "weights", " of block ", block)},
        .asker = self()});
  });
}

task::Task<> ParameterShard::measure_norm(StepId step) {
  co_await turn(step, 4);
  enqueue_norm(step);
}

// Of what this replica holds. Summed part by part, so that the parts' norms add up to the whole's bit by bit, whoever measures them.
void ParameterShard::enqueue_norm(StepId step) {
  auto& m = setup_.memory;
  const auto chunk_of = [](std::int64_t element) { return (element + kernels::kNormChunk - 1) / kernels::kNormChunk; };
  const TensorView chunks = m.norm_chunks.view().rows(chunk_of(m.held_begin), chunk_of(m.held_end));
  setup_.kernels.squared_norm(setup_.compute, {chunks, m.gradient.view().rows(m.held_begin, m.held_end)});
  setup_.compute.notify([this, chunk_of, step](StreamContext&) {
    const auto& memory = setup_.memory;
    const double* values = memory.norm_chunks.view().data<double>();
    const auto sum = [&](std::int64_t begin, std::int64_t end) {
      double squares = 0;
      for (std::int64_t i = chunk_of(begin); i < chunk_of(end); ++i) squares += values[i];
      return squares;
    };
    double squares = 0;
    if (setup_.share.splits_optimizer()) {
      squares = sum(memory.own_begin, memory.own_end);
    } else {
      const auto parts = setup_.share.parts(setup_.layout.elements);
      for (int part = 0; part < parts.members(); ++part) squares += sum(parts.begin(part), parts.end(part));
    }
    replica_.send(NormMeasured{step, setup_.layout.block, squares});
  });
}

task::Task<> ParameterShard::update(StepDecided decision) {
  co_await turn(decision.step, 34);
  auto& m = setup_.memory;
  gathers_ = setup_.share.splits_optimizer() && !decision.skip;
  if (decision.skip) {
    setup_.kernels.fill(setup_.compute, {m.gradient, 0});
    co_return;
  }
  if (copied_.recorded()) setup_.compute.wait(copied_);
  const auto& o = setup_.optimizer;
  const auto& parameters = setup_.layout.parameters;
  // One call for each run of neighbours that decay alike.
  for (std::size_t begin = 0; begin < parameters.size();) {
    std::size_t end = begin + 1;
    while (end < parameters.size() && parameters[end].decays == parameters[begin].decays) ++end;
    const std::int64_t from = std::max(parameters[begin].offset, m.held_begin);
    const std::int64_t to = std::min(end < parameters.size() ? parameters[end].offset : setup_.layout.elements, m.held_end);
    const float decay = parameters[begin].decays ? static_cast<float>(o.weight_decay) : 0.0f;
    begin = end;
    if (from >= to) continue;
    setup_.kernels.adamw(setup_.compute, {.master = m.of_held(m.master, from, to),
                                          .m = m.of_held(m.m, from, to),
                                          .v = m.of_held(m.v, from, to),
                                          .gradient = m.gradient.view().rows(from, to),
                                          .weight = m.weights.view().rows(from, to),
                                          .learning_rate = static_cast<float>(decision.learning_rate),
                                          .beta1 = static_cast<float>(o.beta1),
                                          .beta2 = static_cast<float>(o.beta2),
                                          .epsilon = static_cast<float>(o.epsilon),
                                          .weight_decay = decay,
                                          .gradient_scale = static_cast<float>(decision.gradient_scale),
                                          .step = decision.update,
                                          .clear_gradient = true});
  }
  if (!gathers_) co_return;
  // The others' parts still hold this replica's addends.
  setup_.kernels.fill(setup_.compute, {m.gradient.view().rows(0, m.held_begin), 0});
  setup_.kernels.fill(setup_.compute, {m.gradient.view().rows(m.held_end, setup_.layout.elements), 0});
  enqueue_collective(decision.step, Over::kWeights, comm::CollectiveKind::kAllGather, m.weights);
}

}  // namespace troupe::actors
