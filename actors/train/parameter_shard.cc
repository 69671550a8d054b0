#include "actors/train/parameter_shard.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/device/shown.h"

namespace troupe::actors {

using device::StreamContext, device::TensorView;

ParameterShard::ParameterShard(Setup setup) : setup_(std::move(setup)), step_(setup_.start) {
  on(&ParameterShard::gradient_ready);
  on(&ParameterShard::gradient_in_room);
  on(&ParameterShard::collective_done);
  on(&ParameterShard::decided);
  on(&ParameterShard::snapshot_requested);
  on(&ParameterShard::task_done);
  on(&ParameterShard::norm_reached);
}

void ParameterShard::connect_to(actor::Ref device, actor::Ref replica, actor::Ref writer, actor::Ref replicas, actor::Ref across) {
  device_ = std::move(device);
  replica_ = std::move(replica);
  writer_ = std::move(writer);
  replicas_ = std::move(replicas);
  across_ = std::move(across);
}

void ParameterShard::started() {
  gradient_ = name_for("gradient");
  stage_name_ = name_for(setup_.stage);
  device_name_ = name_for(device_.name());
  if (replicas_) replicas_name_ = name_for(replicas_.name());
  if (across_) across_name_ = name_for(across_.name());
  if (setup_.both_uses) both_uses_name_ = name_for(setup_.both_uses.name()), joining_name_ = name_for(what_joining());
  for (const auto use : {plan::GradientUse::kBlock, plan::GradientUse::kProjection}) {
    for (const bool across : {false, true}) name_of(use, across) = name_for(what(use, across));
  }
  run(publish(), Work::kPublish);
}

void ParameterShard::show_state() {
  using trace::State;
  if (task_ || measuring_) {
    set_state(State::kReady, {}, -1, device_name_);
  } else if (!reducing_.empty()) {
    const auto& [id, sum] = *reducing_.begin();
    set_state(State::kWaitingForCollective, name_of(sum.use, sum.across), id.value, sum.across ? across_name_ : replicas_name_);
  } else if (joining_) {
    set_state(State::kWaitingForCollective, joining_name_, joining_->value, both_uses_name_);
  } else if (summed_) {
    set_state(State::kIdle);
  } else {
    set_state(State::kWaitingForInput, gradient_, step_.value + 1, stage_name_);
  }
}

std::string ParameterShard::what_joining() const { return absl::StrCat("both uses of block ", setup_.layout.block.value); }

std::string ParameterShard::what(plan::GradientUse use, bool across) const {
  return absl::StrCat(use == plan::GradientUse::kProjection ? "projection's gradient of block " : "gradient of block ", setup_.layout.block.value,
                      across ? " across the groups" : "");
}

void ParameterShard::run(task::Task<> body, Work work) {
  next_.push_back({std::move(body), work});
  start_next();
  show_state();
}

void ParameterShard::start_next() {
  if (task_ || next_.empty()) return;
  task_ = std::make_unique<DeviceTask>(std::move(next_.front().body), self(), static_cast<std::uint64_t>(next_.front().work));
  next_.pop_front();
  send(device_, RunTask{task_.get()});
}

void ParameterShard::gradient_ready(BlockGradientReady message) {
  if (setup_.share.replicas == 1) return summed(message.step);
  const auto& m = setup_.memory;
  Sum sum{.step = message.step, .micro_batch = MicroBatchId(0), .use = message.use,
          .range = {setup_.layout.block, 0, setup_.layout.elements}, .flat = m.gradient};
  if (message.use == plan::GradientUse::kProjection) {
    const auto* rows = setup_.layout.group(models::Role::kTokenEmbedding);
    sum.range = {setup_.layout.block, rows->offset, rows->offset + rows->shape.elements()};
    sum.flat = m.head_gradient ? m.head_gradient.view() : m.gradient_of(sum.range.begin, sum.range.end);
  }
  reduce(sum);
}

void ParameterShard::gradient_in_room(GradientInRoom message) {
  addends_.push_back({.gradient = message});
  reduce({.step = message.step, .micro_batch = message.micro_batch, .use = message.use, .range = message.range, .flat = message.flat});
}

// What is reduced lies on the device already.
void ParameterShard::reduce(const Sum& sum) {
  const bool projection = sum.use == plan::GradientUse::kProjection;
  const auto id = operation(sum.step, sum.micro_batch, projection ? Over::kProjectionGradient : Over::kGradient);
  reducing_.emplace(id, sum);
  send(replicas_,
       CollectiveRequested{.operation = id,
                           .collective = {.kind = setup_.share.splits_optimizer() ? comm::CollectiveKind::kReduceScatter
                                                                                  : comm::CollectiveKind::kAllReduce,
                                          .type = sum.flat.type(), .data = static_cast<std::byte*>(sum.flat.raw()),
                                          .parts = setup_.share.parts(setup_.layout.elements, sum.range.begin, sum.range.end),
                                          .sparse = is_sparse(sum),
                                          .what = what(sum)},
                           .asker = self()});
  show_state();
}

void ParameterShard::reduce_across(const Sum& sum) {
  const bool projection = sum.use == plan::GradientUse::kProjection;
  const std::int64_t begin = std::clamp(setup_.memory.held_begin, sum.range.begin, sum.range.end);
  const std::int64_t end = std::clamp(setup_.memory.held_end, sum.range.begin, sum.range.end);
  if (begin == end) return reduced(sum);
  const TensorView own = sum.flat.rows(begin - sum.range.begin, end - sum.range.begin);
  const auto id = operation(sum.step, sum.micro_batch, projection ? Over::kProjectionAcross : Over::kGradientAcross);
  Sum between = sum;
  between.across = true;
  reducing_.emplace(id, between);
  send(across_, CollectiveRequested{.operation = id,
                                    .collective = {.kind = comm::CollectiveKind::kAllReduce, .type = own.type(),
                                                   .data = static_cast<std::byte*>(own.raw()),
                                                   .parts = comm::Parts::equal(end - begin, setup_.share.groups()),
                                                   .sparse = is_sparse(sum),
                                                   .what = what(between)},
                                    .asker = self()});
}

// Its rows are those of the tokens that were seen.
bool ParameterShard::is_sparse(const Sum& sum) const {
  return sum.use == plan::GradientUse::kBlock && setup_.layout.group(models::Role::kTokenEmbedding) != nullptr;
}

comm::OperationId ParameterShard::operation(StepId step, MicroBatchId micro_batch, Over over) const {
  const std::int64_t block = step.value * setup_.model.blocks() + setup_.layout.block.value;
  return comm::OperationId((block * setup_.micro_batches + micro_batch.value) * kOvers + static_cast<std::int64_t>(over));
}

void ParameterShard::collective_done(CollectiveDone message) {
  const auto over = static_cast<Over>(message.operation.value % kOvers);
  if (over == Over::kBothUses) {
    joining_.reset();
    return complete(StepId(message.operation.value / kOvers / setup_.micro_batches / setup_.model.blocks()));
  }
  const auto done = reducing_.extract(message.operation);
  TROUPE_CHECK(!done.empty()) << name() << " knows nothing of operation " << message.operation;
  const bool group_only = over == Over::kGradient || over == Over::kProjectionGradient;
  if (group_only && across_) {
    reduce_across(done.mapped());
  } else {
    reduced(done.mapped());
  }
  show_state();
}

void ParameterShard::reduced(const Sum& sum) {
  if (!setup_.share.splits_gradients()) return summed(sum.step);
  const auto addend = std::find_if(addends_.begin(), addends_.end(), [&](const Addend& a) {
    return a.gradient.step == sum.step && a.gradient.micro_batch == sum.micro_batch && a.gradient.use == sum.use;
  });
  TROUPE_CHECK(addend != addends_.end()) << name() << " has no gradient of micro-batch " << sum.micro_batch << " of step " << sum.step;
  addend->reduced = true;
  add_what_is_reduced();
}

void ParameterShard::add_what_is_reduced() {
  while (!addends_.empty() && addends_.front().reduced) {
    const GradientInRoom addend = std::move(addends_.front().gradient);
    addends_.pop_front();
    run(accumulate(addend), Work::kAccumulate);
    if (addend.last) summed(addend.step);
  }
}

// One use of the block has its sum.
void ParameterShard::summed(StepId step) {
  if (++uses_summed_ < setup_.uses) return;
  uses_summed_ = 0;
  const auto rows = held_rows();
  if (setup_.both_uses && rows.begin < rows.end) {
    joining_ = operation(step, MicroBatchId(0), Over::kBothUses);
    run(join_uses(step), Work::kJoin);
  } else {
    complete(step);
  }
}

void ParameterShard::complete(StepId step) {
  summed_ = true;
  run(measure_norm(step), Work::kNorm);
  if (early_decision_) decided(*std::exchange(early_decision_, std::nullopt));
}

void ParameterShard::decided(StepDecided message) {
  step_ = message.step;
  if (!summed_) {
    // The ledger knows what it needs of this block before we do: from another replica, or from the stream.
    early_decision_ = message;
    return;
  }
  summed_ = false;
  run(update(message), Work::kUpdate);
}

void ParameterShard::snapshot_requested(SnapshotRequested message) {
  if (setup_.memory.copy) return;
  TROUPE_CHECK(message.step == step_) << name() << " is at step " << step_ << ", a snapshot of " << message.step << " was asked";
  auto& m = setup_.memory;
  setup_.copy.wait(updated_);
  const auto copy = [&](TensorView from, TensorView to) {
    setup_.copy.enqueue(device::shown(setup_.copy, {.what = "snapshot", .block = setup_.layout.block.value, .step = message.step.value},
                                      [from, to](StreamContext&) { std::memcpy(to.raw(), from.raw(), static_cast<std::size_t>(from.bytes())); }));
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
  const auto work = static_cast<Work>(message.token);
  if (work == Work::kPublish || work == Work::kUpdate) {
    updated_ = message.done;
    send(replica_, ShardUpdated{step_, setup_.layout.block});
  } else if (work == Work::kNorm) {
    measuring_ = true;
    setup_.compute.notify([shard = self()](StreamContext&) { shard.send(NormReached{}); });
  }
  start_next();
  show_state();
}

void ParameterShard::norm_reached(NormReached) {
  measuring_ = false;
  show_state();
}

task::Turn ParameterShard::turn(StepId step, double bytes_per_element, trace::FixedText what, MicroBatchId micro_batch) const {
  // A byte moved takes about as long as ten operations of a matrix product.
  return {.key = {.urgency = task::Urgency::kUpdate, .step = step.value, .position = setup_.layout.block.value},
          .cost = 10 * bytes_per_element * static_cast<double>(setup_.layout.elements),
          .shown = {.what = what, .block = setup_.layout.block.value, .step = step.value, .micro_batch = micro_batch.value}};
}

task::Task<> ParameterShard::publish() {
  co_await turn(setup_.start, 10, "publish");
  auto& m = setup_.memory;
  if (!setup_.restored) {
    setup_.compute.enqueue([this, master = m.master.view()](StreamContext&) {
      models::initialize(setup_.model, setup_.layout, setup_.seed, master, setup_.memory.held_begin);
    });
  }
  // fp32 computes with the master itself
  if (m.weights.type() != m.master.type()) setup_.kernels.cast(setup_.compute, {m.weights_of(m.held_begin, m.held_end), m.master});
  tell_written(setup_.start);
}

void ParameterShard::tell_written(StepId step) {
  if (!setup_.share.splits_optimizer()) return;
  setup_.compute.notify([this, step](StreamContext&) { setup_.written(step); });
}

// This replica's part of what lies in the room now.
task::Task<> ParameterShard::accumulate(GradientInRoom addend) {
  const auto& range = addend.range;
  const auto& m = setup_.memory;
  const std::int64_t begin = std::clamp(m.held_begin, range.begin, range.end), end = std::clamp(m.held_end, range.begin, range.end);
  co_await turn(addend.step, 12 * static_cast<double>(end - begin) / static_cast<double>(setup_.layout.elements), "accumulate", addend.micro_batch);
  if (begin < end) {
    const bool apart = addend.use == plan::GradientUse::kProjection && m.head_gradient;
    const TensorView sum = apart ? m.head_gradient_of(begin, end) : m.gradient_of(begin, end);
    setup_.kernels.add(setup_.compute, {sum, sum, addend.flat.rows(begin - range.begin, end - range.begin)});
  }
  setup_.compute.notify([rooms = addend.rooms, room = addend.room](StreamContext&) { rooms.send(room); });
}

plan::GradientRange ParameterShard::held_rows() const {
  const auto* rows = setup_.layout.group(models::Role::kTokenEmbedding);
  if (rows == nullptr) return {};
  const std::int64_t begin = rows->offset, end = rows->offset + rows->shape.elements();
  return {setup_.layout.block, std::clamp(setup_.memory.held_begin, begin, end), std::clamp(setup_.memory.held_end, begin, end)};
}

// In the order of the group: the embedding's use, then the head's, as within one process.
task::Task<> ParameterShard::join_uses(StepId step) {
  co_await turn(step, 0, "join uses");
  const auto rows = held_rows();
  setup_.compute.notify([this, step, data = setup_.memory.gradient_of(rows.begin, rows.end)](StreamContext&) {
    setup_.both_uses.send(CollectiveRequested{.operation = operation(step, MicroBatchId(0), Over::kBothUses),
                                              .collective = {.kind = comm::CollectiveKind::kAllReduce, .type = data.type(),
                                                             .data = static_cast<std::byte*>(data.raw()),
                                                             .parts = comm::Parts::equal(data.elements(), 2),
                                                             .what = what_joining()},
                                              .asker = self()});
  });
}

// The uses' sums are complete then: they become one.
task::Task<> ParameterShard::measure_norm(StepId step) {
  co_await turn(step, 4, "norm");
  auto& m = setup_.memory;
  if (const TensorView head = m.head_gradient ? m.head_gradient_of(m.held_begin, m.held_end) : TensorView()) {
    const std::int64_t begin = std::max(m.held_begin, m.head_begin);
    const TensorView rows = m.gradient_of(begin, begin + head.elements());
    setup_.kernels.add(setup_.compute, {rows, rows, head});
  }
  if (m.head_gradient) setup_.kernels.fill(setup_.compute, {m.head_gradient, 0});
  if (!m.copy) enqueue_norm(step);
}

// Of what this replica holds. Summed part by part, so that the parts' norms add up to the whole's bit by bit, whoever measures them.
void ParameterShard::enqueue_norm(StepId step) {
  auto& m = setup_.memory;
  const auto chunk_of = [](std::int64_t element) { return (element + kernels::kNormChunk - 1) / kernels::kNormChunk; };
  const TensorView chunks = m.norm_chunks.view().rows(chunk_of(m.held_begin), chunk_of(m.held_end));
  setup_.kernels.squared_norm(setup_.compute, {chunks, m.gradient_of(m.held_begin, m.held_end)});
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
  co_await turn(decision.step, 34, "update");
  auto& m = setup_.memory;
  if (decision.skip) {
    setup_.kernels.fill(setup_.compute, {m.gradient, 0});
    tell_written(decision.step);  // as they were
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
                                          .gradient = m.gradient_of(from, to),
                                          .weight = m.weights_of(from, to),
                                          .learning_rate = static_cast<float>(decision.learning_rate),
                                          .beta1 = static_cast<float>(o.beta1),
                                          .beta2 = static_cast<float>(o.beta2),
                                          .epsilon = static_cast<float>(o.epsilon),
                                          .weight_decay = decay,
                                          .gradient_scale = static_cast<float>(decision.gradient_scale),
                                          .step = decision.update,
                                          .clear_gradient = true});
  }
  if (setup_.share.splits_optimizer() && !setup_.share.splits_gradients()) {  // the others' parts still hold this replica's addends
    setup_.kernels.fill(setup_.compute, {m.gradient_of(0, m.held_begin), 0});
    setup_.kernels.fill(setup_.compute, {m.gradient_of(m.held_end, setup_.layout.elements), 0});
  }
  tell_written(decision.step);
}

}  // namespace troupe::actors
