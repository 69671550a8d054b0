#include "actors/train/parameter_shard.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace troupe::actors {

using device::StreamContext, device::TensorView;

ParameterShard::ParameterShard(Setup setup) : setup_(std::move(setup)), step_(setup_.start) {
  on(&ParameterShard::gradient_ready);
  on(&ParameterShard::reduced);
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

// An operation of the group for each step and block.
comm::OperationId ParameterShard::operation(StepId step) const {
  return comm::OperationId(step.value * setup_.model.blocks() + setup_.layout.block.value);
}

void ParameterShard::reduced(CollectiveDone message) {
  const StepId step(message.operation.value / setup_.model.blocks());
  if (task_) {
    early_sum_ = step;  // before the device loop told us that the task which asked for it has ended
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
  copy(m.master, m.snapshot_master);
  copy(m.m, m.snapshot_m);
  copy(m.v, m.snapshot_v);
  copied_ = setup_.copy.record();
  setup_.copy.notify([writer = writer_, taken = SnapshotTaken{message.step, setup_.layout.block}](StreamContext&) {
    writer.send(taken);
  });
}

void ParameterShard::task_done(TaskDone message) {
  task_.reset();
  switch (static_cast<Work>(message.token)) {
    case Work::kAddUses:
      if (setup_.replicas > 1) {  // the stream itself asks for the sum over replicas
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
      [[fallthrough]];
    case Work::kPublish:
      updated_ = message.done;
      send(replica_, ShardUpdated{step_, setup_.layout.block});
  }
}

task::Turn ParameterShard::turn(StepId step, double bytes_per_element) const {
  // A byte moved takes about as long as ten operations of a matrix product.
  return {.key = {.urgency = task::Urgency::kUpdate, .step = step.value, .position = setup_.layout.block.value},
          .cost = 10 * bytes_per_element * static_cast<double>(setup_.layout.elements)};
}

task::Task<> ParameterShard::publish() {
  co_await turn(setup_.start, 10);
  auto& m = setup_.memory;
  const TensorView master = m.master;
  if (!setup_.restored) {
    setup_.compute.enqueue([this, master](StreamContext&) {
      models::initialize(setup_.model, setup_.layout, setup_.seed, master);
    });
  }
  if (m.weights.view().raw() != master.raw()) setup_.kernels.cast(setup_.compute, {m.weights, master});
}

// With one replica the sum is complete then: its norm follows in the same turn.
task::Task<> ParameterShard::add_uses(StepId step) {
  co_await turn(step, setup_.replicas > 1 ? 0 : 4);
  auto& m = setup_.memory;
  if (m.head_gradient) {
    const auto rows = models::BlockGradients(setup_.layout, m.gradient)[models::Role::kTokenEmbedding];
    setup_.kernels.add(setup_.compute, {rows, rows, m.head_gradient});
    setup_.kernels.fill(setup_.compute, {m.head_gradient, 0});
  }
  if (setup_.replicas == 1) {
    enqueue_norm(step);
    co_return;
  }
  setup_.compute.notify([this, gradient = m.gradient.view(), step](StreamContext&) {
    replicas_.send(CollectiveRequested{
        .operation = operation(step),
        .collective = {.kind = comm::CollectiveKind::kAllReduce, .type = gradient.type(), .data = static_cast<std::byte*>(gradient.raw()),
                       .parts = comm::Parts::equal(gradient.elements(), setup_.replicas),
                       .what = absl::StrCat("gradient of block ", setup_.layout.block.value)},
        .asker = self()});
  });
}

task::Task<> ParameterShard::measure_norm(StepId step) {
  co_await turn(step, 4);
  enqueue_norm(step);
}

void ParameterShard::enqueue_norm(StepId step) {
  auto& m = setup_.memory;
  setup_.kernels.squared_norm(setup_.compute, {m.norm_chunks, m.gradient});
  setup_.compute.notify([replica = replica_, chunks = m.norm_chunks.view(), step, block = setup_.layout.block](StreamContext&) {
    double squares = 0;
    const double* values = chunks.data<double>();
    for (std::int64_t i = 0; i < chunks.elements(); ++i) squares += values[i];
    replica.send(NormMeasured{step, block, squares});
  });
}

task::Task<> ParameterShard::update(StepDecided decision) {
  co_await turn(decision.step, 34);
  auto& m = setup_.memory;
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
    const std::int64_t from = parameters[begin].offset;
    const std::int64_t to = end < parameters.size() ? parameters[end].offset : setup_.layout.elements;
    const auto part = [&](const device::Tensor& flat) { return flat.view().rows(from, to); };
    setup_.kernels.adamw(setup_.compute, {.master = part(m.master),
                                          .m = part(m.m),
                                          .v = part(m.v),
                                          .gradient = part(m.gradient),
                                          .weight = part(m.weights),
                                          .learning_rate = static_cast<float>(decision.learning_rate),
                                          .beta1 = static_cast<float>(o.beta1),
                                          .beta2 = static_cast<float>(o.beta2),
                                          .epsilon = static_cast<float>(o.epsilon),
                                          .weight_decay = parameters[begin].decays ? static_cast<float>(o.weight_decay) : 0.0f,
                                          .gradient_scale = static_cast<float>(decision.gradient_scale),
                                          .step = decision.update,
                                          .clear_gradient = true});
    begin = end;
  }
}

}  // namespace troupe::actors
