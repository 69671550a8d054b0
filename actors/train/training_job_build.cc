// How a job's actors are made and joined, from what the plan says of this rank.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "actors/train/assigner.h"
#include "actors/train/checkpoint_writer.h"
#include "actors/train/evaluator.h"
#include "actors/train/gradient_rooms.h"
#include "actors/train/ledger.h"
#include "actors/train/parameter_shard.h"
#include "actors/train/replica.h"
#include "actors/train/source.h"
#include "actors/train/stage.h"
#include "actors/train/stage_edges.h"
#include "actors/train/training_job.h"
#include "actors/train/whole_weights.h"

namespace troupe::actors {
namespace {

constexpr comm::GroupId kReplicas{1};  // ranks that hold the same blocks, or split them between them
constexpr comm::GroupId kAcross{2};    // ranks with the same part of them in each group of a hybrid sharding
constexpr comm::GroupId kBothUses{3};  // ranks of one replica with the uses of a tied embedding

}  // namespace

// Those of this process; null what it does not have.
struct TrainingJob::Actors {
  DeviceLoop* device = nullptr;
  CollectiveGroup *replicas = nullptr, *across = nullptr, *both_uses = nullptr;
  WholeWeights* whole_weights = nullptr;
  std::vector<ParameterShard*> shards;
  std::vector<Stage*> stages;
  Source* source = nullptr;
  Evaluator* evaluator = nullptr;
  Replica* replica = nullptr;
  CheckpointWriter* writer = nullptr;
  actor::Ref assigner;

  std::vector<actor::Ref> shard_refs() const {
    std::vector<actor::Ref> refs;
    for (auto* shard : shards) refs.push_back(shard->self());
    return refs;
  }
};

void TrainingJob::build() {
  system_ = std::make_unique<actor::System>(world_.system);
  make_streams();
  Actors all;
  all.device = &system_->add<DeviceLoop>(kDeviceName, *compute_, world_.clock, world_.max_operations);
  if (world_.transport) join_others(all);
  add_shards(all);
  add_stages(all);
  add_feeds(all);
  Replica::Setup agent{.share = share(), .rank = rank_, .first = part_ == 0, .job = plan::fingerprint(job_)};
  if (plan_.stages_of(part_).back().last()) agent.last_stage = all.stages.back()->name();
  for (const auto& memory : shards_) agent.blocks.push_back({.block = memory.block, .measured = !memory.copy});
  all.replica = &system_->add<Replica>("replica", std::move(agent));
  replica_ = all.replica->self();
  all.writer = &system_->add<CheckpointWriter>(
      "checkpoint-writer", CheckpointWriter::Setup{.plan = plan_, .rank = rank_, .shards = shards_, .storage = *storage_, .disk = *disk_,
                                                   .clock = world_.clock, .output = job_.job.output, .config = plan::resolved(job_),
                                                   .seed = seed(), .keep_latest_k = job_.checkpoint.keep_latest_k});
  if (leads()) {
    add_leaders(all);
  } else {
    ledger_ = link_->remote(*system_, Rank(0), "ledger");
    all.writer->connect_to(ledger_, {link_->remote(*system_, Rank(0), "checkpoint-writer")});
    if (plan_.pulls) all.assigner = link_->remote(*system_, Rank(0), "assigner");
  }
  if (link_) expose(all);
  connect(all);
}

void TrainingJob::make_streams() {
  device::Buffer scratch = pool_->take("scratch", plan_.memory[static_cast<std::size_t>(part_)].scratch_bytes);
  compute_ = world_.make_stream("compute", plan_.threads, std::move(scratch));
  copy_ = world_.make_stream("copy", 1, {});
  loader_ = world_.make_stream("loader", 1, {});
  storage_ = world_.make_stream("storage", 1, {});
  if (leads()) {
    metrics_ = world_.make_stream("metrics", 1, {});
    terminal_ = world_.make_stream("terminal", 1, {});
  }
  if (plan_.placement.parts > 1) edges_ = world_.make_stream("edges", 1, {});
  const auto show = [this](const std::unique_ptr<device::Stream>& stream, const char* kind) {
    if (stream) system_->probes().add(stream->shared_probe(), kind);
  };
  show(compute_, "compute");
  show(copy_, "copy");
  for (const auto* stream : {&loader_, &storage_, &metrics_}) show(*stream, "storage");
  show(terminal_, "terminal");
  show(edges_, "edges");
}

// What others are reached by.
void TrainingJob::join_others(Actors& all) {
  engine_ = std::make_unique<comm::CollectiveEngine>(*world_.transport);
  link_ = std::make_unique<Link>(*world_.transport);
  slices_ = std::make_unique<comm::Slices>(*world_.transport, machine_mates());
  if (share().splits_optimizer()) all.whole_weights = &add_whole_weights(all.device->self());
  if (edges_) far_ = std::make_unique<FarEdges>(*system_, *world_.transport, *edges_);

  std::vector<Rank> everybody;
  for (int rank = 0; rank < plan_.placement.world(); ++rank) everybody.push_back(Rank(rank));
  engine_->add_group(kEverybody, everybody, {}, "everybody");
  const auto add_group = [&](const char* name, comm::GroupId id, const std::vector<Rank>& ranks) {
    std::vector<int> nodes;
    for (const Rank rank : ranks) {
      if (!world_.node_of.empty()) nodes.push_back(world_.node_of[static_cast<std::size_t>(rank.value)]);
    }
    engine_->add_group(id, ranks, nodes, name);
    return &system_->add<CollectiveGroup>(name, *engine_, id);
  };
  const auto& placement = plan_.placement;
  if (plan_.replicas > 1) {
    const std::vector<Rank> between = group_ranks();
    std::vector<Rank> across;
    for (int group = 0; group < share().groups(); ++group) across.push_back(placement.rank_of(group * share().members() + share().member(), part_));
    all.replicas = add_group("replicas", kReplicas, between);
    if (across.size() > 1) all.across = add_group("across-groups", kAcross, across);
  }
  if (share().uses_apart && (part_ == 0 || plan_.copies_embedding(part_))) {
    all.both_uses = add_group("both-uses", kBothUses, {placement.rank_of(replica_number_, 0), placement.rank_of(replica_number_, placement.parts - 1)});
  }
}

void TrainingJob::add_shards(Actors& all) {
  for (auto& memory : shards_) {
    const auto shapes = plan_.stages_of(part_);
    const auto holder = std::find_if(shapes.begin(), shapes.end(), [&](const plan::StageShape& shape) {
      return (shape.last() && (memory.copy || memory.block == plan_.model.head_block())) ||
             (shape.first() && !memory.copy && memory.block.value == 0) ||
             (memory.block >= shape.block(0) && memory.block < BlockIndex(shape.block(0).value + shape.layers()));
    });
    all.shards.push_back(&system_->add<ParameterShard>(
        shard_name(memory.block),
        ParameterShard::Setup{.model = plan_.model, .layout = plan_.layout_of(memory.block), .memory = memory, .kernels = world_.kernels,
                              .compute = *compute_, .copy = *copy_, .optimizer = job_.optimizer, .seed = seed(),
                              .restored = start_.step.value > 0, .start = start_.step,
                              .uses = plan::gradient_uses(plan_.model, memory.block, share()),
                              .micro_batches = plan_.micro_batches, .share = share(), .written = tells_written(memory.block, all.whole_weights),
                              .stage = stage_name((holder == shapes.end() ? shapes.back() : *holder).index),
                              .both_uses = all.both_uses && memory.block.value == 0 ? all.both_uses->self() : actor::Ref()}));
  }
}

void TrainingJob::add_stages(Actors& all) {
  const auto& model = plan_.model;
  const auto shard_refs = all.shard_refs();
  const auto shapes = plan_.stages_of(part_);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const auto& shape = shapes[i];
    const std::int32_t first = shape.first() ? 0 : shape.block(0).value;
    const std::int32_t end = shape.last() ? model.head_block().value + 1 : shape.block(shape.layers()).value;
    Stage::Setup setup{.plan = plan_, .shape = shape, .memory = stages_[i], .kernels = world_.kernels, .stream = *compute_, .seed = seed()};
    for (std::int32_t block = first; block < end; ++block) {
      setup.blocks.push_back(resident_tensors(BlockIndex(block)));
      setup.shards.push_back(shard_refs[shard_at(BlockIndex(block))]);
    }
    if (shape.last()) {
      const auto holder = resident_tensors(model.tied_embeddings ? BlockIndex(0) : model.head_block());
      const auto role = model.tied_embeddings ? models::Role::kTokenEmbedding : models::Role::kHead;
      const auto& held_in = plan_.layout_of(model.tied_embeddings ? BlockIndex(0) : model.head_block());
      if (!share().splits_weights(held_in)) setup.projection = holder.weights[role];
      if (!share().splits_gradients()) {
        const bool second_use = model.tied_embeddings && !share().uses_apart;
        setup.projection_gradient = second_use ? shard(BlockIndex(0)).head_gradient.view().reshaped({model.padded_vocabulary, model.hidden})
                                               : holder.gradients[role];
      }
      if (model.tied_embeddings) setup.tied = shard_refs[shard_at(BlockIndex(0))];
    }
    if (all.whole_weights) setup.whole_weights = all.whole_weights->self();
    add_rooms(i, all.device->self(), setup);
    all.stages.push_back(&system_->add<Stage>(stage_name(shape.index), std::move(setup)));
  }
}

// Of training, and of validation where there is any.
void TrainingJob::add_feeds(Actors& all) {
  std::vector<std::vector<models::MicroBatchInputs>*> inputs, evaluation_inputs;
  for (auto& memory : stages_) {
    inputs.push_back(&memory.inputs);
    evaluation_inputs.push_back(&memory.evaluation_inputs);
  }
  // Where replicas pull, a micro-batch is known by its index in the step alone.
  const auto layout = data::BatchLayout::create(plan_.global_batch, plan_.geometry.batch, plan_.pulls ? 1 : plan_.replicas);
  TROUPE_CHECK(layout.ok()) << std::string(layout.status().message());
  all.source = &system_->add<Source>(
      "source", Source::Setup{.feed = {.port = "batch-", .source = *training_data_, .geometry = plan_.geometry, .samples = {},
                                       .loader = *loader_, .inputs = inputs},
                              .layout = *layout,
                              .replica = replica_number_,
                              .first_step = StepId(start_.step.value + 1),
                              .last_step = job_.training.steps,
                              .in_flight = plan_.stages_of(part_).front().in_flight,
                              .pulls = plan_.pulls,
                              .asks = part_ == 0,
                              .assigner = !plan_.pulls ? "" : leads() ? "assigner" : "assigner@0"});
  if (!evaluates()) return;
  std::vector<std::string> stages;
  for (const auto* stage : all.stages) stages.push_back(stage->name());
  all.evaluator = &system_->add<Evaluator>(
      "evaluator", Evaluator::Setup{.feed = {.port = "batch-", .source = *validation_data_, .geometry = plan_.geometry, .samples = {},
                                             .loader = *loader_, .inputs = evaluation_inputs},
                                    .replica = replica_number_,
                                    .replicas = plan_.replicas,
                                    .stages = std::move(stages)});
}

// What only rank 0 has.
void TrainingJob::add_leaders(Actors& all) {
  auto& reporter = system_->add<Reporter>(
      "reporter", Reporter::Setup{.plan = plan_, .metrics_path = metrics_path(), .metrics = *metrics_, .terminal = *terminal_, .tokens = start_.tokens,
                                  .steps = job_.training.steps, .peak_flops_per_s = options_.peak_flops_per_s,
                                  .tensorboard = tensorboard_folder(), .after = start_.step, .console = options_.console, .log_every = job_.metrics.log_every,
                                  .on_step = options_.on_step});
  seen_ = std::make_unique<trace::TrainingProbe>(system_->probes().ticks(), trace::TrainingProbe::Job{
      .begun_ns = begun_ns_, .first_step = start_.step.value + 1, .steps = job_.training.steps, .tokens = start_.tokens,
      .tokens_per_step = static_cast<double>(plan_.tokens_per_step()), .flops_per_step = plan_.flops_per_step / plan_.placement.world(),
      .peak_flops_per_s = options_.peak_flops_per_s});
  auto& ledger = system_->add<Ledger>("ledger", Ledger::Setup{.plan = plan_, .job = job_, .start = start_, .save = options_.save,
                                                              .hold_after = options_.hold_after, .compute = *compute_, .terminal = *terminal_,
                                                              .seen = seen_.get()});
  ledger_ = ledger.self();
  reporter.connect_to(ledger_);
  std::vector<actor::Ref> replicas{replica_}, writers{all.writer->self()};
  for (int rank = 1; rank < plan_.placement.world(); ++rank) {
    replicas.push_back(link_->remote(*system_, Rank(rank), "replica"));
    writers.push_back(link_->remote(*system_, Rank(rank), "checkpoint-writer"));
  }
  ledger.connect_to(replicas, all.writer->self(), reporter.self());
  all.writer->connect_to(ledger_, writers);
  if (!plan_.pulls) return;
  auto& assigner = system_->add<Assigner>("assigner", Assigner::Setup{.replicas = plan_.replicas, .micro_batches = plan_.step_micro_batches(),
                                                                      .start = start_.step, .record = std::move(record_)});
  std::vector<std::vector<actor::Ref>> processes(static_cast<std::size_t>(plan_.replicas));
  for (std::size_t rank = 0; rank < replicas.size(); ++rank) {
    const int replica_of = plan_.placement.replica_of(Rank(static_cast<std::int32_t>(rank)));
    processes[static_cast<std::size_t>(replica_of)].push_back(replicas[rank]);
  }
  assigner.connect_to(std::move(processes));
  all.assigner = assigner.self();
}

// To the other ranks.
void TrainingJob::expose(const Actors& all) {
  link_->expose(leads() ? "ledger" : "replica", leads() ? ledger_ : replica_);
  link_->expose("checkpoint-writer", all.writer->self());
  if (leads() && plan_.pulls) link_->expose("assigner", all.assigner);
  link_->before_an_end([this] { system_->end_pauses(); });  // else who is to hear of it might not
  world_.transport->on_peer_down([this](Rank rank, const Status& cause) {
    peer_went_down(rank, cause);
    if (far_) far_->peer_down(rank, cause);
    engine_->peer_down(rank, cause);
    slices_->peer_down(rank, cause);
    if (tell_peer_down_) tell_peer_down_(rank, cause);
  });
}

void TrainingJob::connect(const Actors& all) {
  const auto shapes = plan_.stages_of(part_);
  std::vector<actor::Ref> stage_refs;
  for (std::size_t i = 0; i < all.stages.size(); ++i) {
    const auto& shape = shapes[i];
    Stage& stage = *all.stages[i];
    stage.connect_to(all.device->self(), replica_, plan_.pulls && shape.first() ? all.source->self() : actor::Ref());
    actor::connect(all.source->feed().out(static_cast<int>(i)), stage.batch, {.credits = shape.batch_credits});
    if (all.evaluator) {
      actor::connect(all.evaluator->feed().out(static_cast<int>(i)), stage.evaluation_batch, {.credits = plan::kEvaluationCredits});
    }
    stage_refs.push_back(stage.self());
  }
  connect_stages({.plan = plan_, .rank = rank_, .stages = all.stages, .memory = stages_, .evaluates = evaluates(), .far = far_.get()});
  const auto ref = [](const CollectiveGroup* group) { return group ? group->self() : actor::Ref(); };
  for (auto* shard : all.shards) shard->connect_to(all.device->self(), replica_, all.writer->self(), ref(all.replicas), ref(all.across));
  all.source->connect_to(replica_, stage_refs);
  all.replica->connect_to(ledger_, all.source->self(), all.shard_refs(), all.evaluator ? all.evaluator->self() : actor::Ref(), all.assigner);
}

BlockTensorsOfStage TrainingJob::resident_tensors(BlockIndex block) const {
  const auto& layout = plan_.layout_of(block);
  const auto& shard = this->shard(block);
  BlockTensorsOfStage tensors;
  if (!share().splits_weights(layout)) tensors.weights = models::BlockWeights(layout, shard.weights.view());
  if (!share().splits_gradients()) tensors.gradients = models::BlockGradients(layout, shard.gradient.view());
  return tensors;
}

// Of its group, with its part of the stages.
std::vector<Rank> TrainingJob::group_ranks() const {
  std::vector<Rank> ranks;
  for (int member = 0; member < share().members(); ++member) ranks.push_back(plan_.placement.rank_of(share().first_of_group() + member, part_));
  return ranks;
}

// Those of its group and its part of the stages that share its machine: they pull the same weights.
std::vector<Rank> TrainingJob::machine_mates() const {
  std::vector<Rank> mates;
  const auto node = [this](Rank rank) { return world_.node_of.empty() ? 0 : world_.node_of[static_cast<std::size_t>(rank.value)]; };
  for (const Rank rank : group_ranks()) {
    if (node(rank) == node(rank_)) mates.push_back(rank);
  }
  return mates;
}

// This replica's part of every block is shown to the others of its group, who fetch it after each update.
WholeWeights& TrainingJob::add_whole_weights(const actor::Ref& device) {
  WholeWeights::Setup setup{.blocks = plan_.blocks, .share = share(), .weights = {}, .fetch = fetches_weights(), .ranks = group_ranks()};
  setup.weights.resize(plan_.blocks.size());
  for (const auto& shard : shards_) {
    const auto own = shard.weights_of(shard.held_begin, shard.held_end);
    slices_->show(comm::SliceId(shard.block.value), {static_cast<const std::byte*>(own.raw()), static_cast<std::size_t>(own.bytes())});
    if (!share().splits_weights(plan_.layout_of(shard.block))) setup.weights[static_cast<std::size_t>(shard.block.value)] = shard.weights.view();
  }
  auto& whole = system_->add<WholeWeights>("weights", std::move(setup));
  whole.connect_to(device);
  return whole;
}

WeightRooms::Fetch TrainingJob::fetches_weights() const {
  return [this](BlockIndex block, int member, StepId step, std::span<std::byte> into, comm::Completion done) {
    slices_->fetch(plan_.placement.rank_of(share().first_of_group() + member, part_), comm::SliceId(block.value), step.value, into, std::move(done));
  };
}

std::function<void(StepId)> TrainingJob::tells_written(BlockIndex block, const WholeWeights* whole) const {
  if (!whole) return {};
  const bool split = share().splits_weights(plan_.layout_of(block));
  return [slices = slices_.get(), block, weights = split ? actor::Ref() : whole->self()](StepId step) {
    slices->publish(comm::SliceId(block.value), step.value);
    if (weights) weights.send(WeightsWritten{block, step});
  };
}

// Where the stage's split blocks pass through.
void TrainingJob::add_rooms(std::size_t stage, const actor::Ref& device, Stage::Setup& setup) {
  const auto& memory = stages_[stage].rooms;
  const auto& stage_shape = plan_.stages_of(part_)[stage];
  if (!memory.weights.empty()) {
    const auto shape = plan::RoomShape::of(plan_, stage_shape);
    auto& rooms = system_->add<WeightRooms>(
        absl::StrCat("weights-", stage_shape.index.value),
        WeightRooms::Setup{.blocks = plan_.blocks, .share = share(), .memory = memory, .keeps = shape.keeps_weights, .split = shape.split,
                           .fetch = fetches_weights(), .ranks = group_ranks()});
    rooms.connect_to(device);
    setup.weight_rooms = rooms.self();
  }
  if (share().splits_gradients()) {
    auto& rooms = system_->add<GradientRooms>(absl::StrCat("gradients-", stage_shape.index.value), memory);
    rooms.connect_to(device);
    setup.gradient_rooms = rooms.self();
  }
}

}  // namespace troupe::actors
