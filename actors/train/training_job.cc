#include "actors/train/training_job.h"

#include <algorithm>
#include <filesystem>
#include <future>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
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
#include "actors/train/whole_weights.h"
#include "models/checkpoint/directory.h"
#include "models/checkpoint/inspect.h"
#include "runtime/base/log.h"
#include "runtime/device/host_stream.h"

namespace troupe::actors {
namespace {

constexpr comm::GroupId kAll{0};       // ranks of the job
constexpr comm::GroupId kReplicas{1};  // ranks that hold the same parameters
constexpr comm::GroupId kBothUses{2};  // ranks of one replica with the uses of a tied embedding

std::string metrics_path(const plan::JobConfig& job) { return job.job.output + "/metrics.jsonl"; }

StatusOr<std::unique_ptr<const data::Corpus>> open_for(const plan::JobConfig& job, const plan::Plan& plan, const std::string& path) {
  data::CorpusOptions options{.vocab_size = static_cast<std::int32_t>(plan.model.vocabulary)};
  if (job.data.end_of_document) options.end_of_document = *job.data.end_of_document;
  TROUPE_ASSIGN_OR_RETURN(auto corpus, data::open_corpus(path, options));
  const bool megatron = corpus->facts().format == "megatron";
  if (job.data.format != plan::DataFormat::kAuto && megatron != (job.data.format == plan::DataFormat::kMegatron)) {
    return absl::InvalidArgumentError(absl::StrCat("data.format = ", megatron ? "llmc" : "megatron", " but ", path, " is a corpus of format ",
                                                   corpus->facts().format, "; say data.format = \"auto\", or name another corpus"));
  }
  return std::unique_ptr<const data::Corpus>(std::move(corpus));
}

// Settings of `now` that `before` does not have with this value, as "section.key = value".
std::vector<std::string> changed_settings(const std::string& before, const std::string& now) {
  const auto settings = [](const std::string& text) {
    std::vector<std::string> found;
    std::string section;
    const std::vector<std::string> lines = absl::StrSplit(text, '\n');
    for (std::string line : lines) {
      line = line.substr(0, line.find(" #"));
      absl::StripAsciiWhitespace(&line);
      if (line.starts_with('[')) {
        section = line.substr(1, line.find(']') - 1);
      } else if (!line.empty() && !line.starts_with('#')) {
        found.push_back(absl::StrCat(section, ".", line));
      }
    }
    return found;
  };
  const auto old = settings(before);
  std::vector<std::string> changed;
  for (auto& setting : settings(now)) {
    if (std::find(old.begin(), old.end(), setting) == old.end()) changed.push_back(std::move(setting));
  }
  return changed;
}

}  // namespace

World World::on_this_machine(const kernels::Table& kernels, const Clock& clock) {
  World world{.kernels = kernels, .clock = clock, .system = {}, .make_stream = {}};
  world.make_stream = [](std::string name, int threads, device::Buffer scratch) {
    return std::make_unique<device::HostStream>(std::move(name), threads, std::move(scratch));
  };
  return world;
}

TrainingJob::TrainingJob(plan::JobConfig job, plan::Plan plan, const World& world, const JobOptions& options)
    : job_(std::move(job)), plan_(std::move(plan)), world_(world), options_(options),
      rank_(world.transport ? world.transport->rank() : Rank(0)), replica_number_(plan_.placement.replica_of(rank_)),
      part_(plan_.placement.part_of(rank_)) {}

StatusOr<std::unique_ptr<TrainingJob>> TrainingJob::create(plan::JobConfig job, plan::Plan plan, const World& world,
                                                           const JobOptions& options) {
  if (const int ranks = world.transport ? world.transport->world() : 1; ranks != plan.placement.world()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "parallelism.data_parallel = ", plan.replicas, ", parallelism.pipeline = ", plan.placement.stages, " planned for ", plan.placement.world(),
        " processes, but this job has ", ranks, ": start ", plan.placement.worlds(), " (troupe launch --nproc), or change the config"));
  }
  std::unique_ptr<TrainingJob> made(new TrainingJob(std::move(job), std::move(plan), world, options));
  TROUPE_RETURN_IF_ERROR(made->open_data());
  TROUPE_RETURN_IF_ERROR(made->open_folder());
  TROUPE_RETURN_IF_ERROR(made->open_record());
  made->take_memory();
  TROUPE_RETURN_IF_ERROR(made->resume());
  made->build();
  return made;
}

Status TrainingJob::open_data() {
  if (job_.data.train.empty()) {
    return absl::InvalidArgumentError("data.train is not given: name a corpus made by `troupe data prepare`, a Megatron .bin/.idx prefix, or "
                                      "an llm.c .bin file");
  }
  const data::SampleOptions samples{.seq_len = plan_.geometry.seq_len, .document_masks = job_.data.document_mask,
                                    .restart_positions = false};
  TROUPE_ASSIGN_OR_RETURN(auto corpus, open_for(job_, plan_, job_.data.train));
  TROUPE_ASSIGN_OR_RETURN(auto training,
                          data::SampleSource::for_training(std::move(corpus), samples, static_cast<std::uint64_t>(job_.job.seed),
                                                           job_.data.shuffle ? data::SampleOrder::kShuffled : data::SampleOrder::kRepeated));
  training_data_.emplace(std::move(training));
  if (!evaluates()) return ok();
  if (job_.data.validation.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("validation.interval = ", job_.validation.interval,
                                                   " but data.validation is not given: name a corpus, or set validation.interval = 0"));
  }
  TROUPE_ASSIGN_OR_RETURN(auto held_out, open_for(job_, plan_, job_.data.validation));
  TROUPE_ASSIGN_OR_RETURN(auto validation, data::SampleSource::for_validation(std::move(held_out), samples,
                                                                              plan_.evaluation_batches * plan_.geometry.batch));
  validation_data_.emplace(std::move(validation));
  return ok();
}

Status TrainingJob::open_folder() {
  disk_ = std::make_unique<checkpoint::Disk>();
  if (!leads()) return ok();
  TROUPE_ASSIGN_OR_RETURN(auto lock, checkpoint::RunLock::take(job_.job.output));
  lock_ = std::move(lock);
  if (!job_.checkpoint.resume && options_.save &&
      (std::filesystem::exists(metrics_path(job_)) || std::filesystem::exists(checkpoint::checkpoints_folder(job_.job.output)))) {
    return absl::AlreadyExistsError(absl::StrCat("job.output = ", job_.job.output,
                                                 " holds a run and checkpoint.resume = false: choose another folder, or resume"));
  }
  return ok();
}

// Before a resume changes anything: the recording may be this run's own.
Status TrainingJob::open_record() {
  if (!leads() || job_.parallelism.replay.empty()) return ok();
  StepId done;
  if (options_.save) {
    const auto newest = checkpoint::newest_complete(job_.job.output);
    if (newest.ok()) done = newest->step;
  }
  TROUPE_ASSIGN_OR_RETURN(auto record, AssignmentRecord::read(job_.parallelism.replay, StepId(done.value + 1), StepId(job_.training.steps),
                                                             plan_.replicas, plan_.step_micro_batches()));
  record_ = std::move(record);
  return ok();
}

void TrainingJob::take_memory() {
  pool_ = std::make_unique<device::BufferPool>(plan_.memory[static_cast<std::size_t>(part_)].pool_bytes);
  device::PoolAllocator from(*pool_);
  for (const auto& stage : plan_.stages_of(part_)) {
    stages_.push_back(plan::StageMemory::take(plan_.model, stage, plan_.stage_options(stage), from));
  }
  for (const auto& block : plan_.blocks_of(part_)) {
    shards_.push_back(plan::ShardMemory::take(plan_.model, block, plan_.geometry.compute, plan_.snapshots, from, share()));
  }
  if (!plan_.copies_embedding(part_)) return;
  shards_.push_back(plan::ShardMemory::take(plan_.model, plan_.blocks.front(), plan_.geometry.compute, false, from, share()));
  shards_.back().copy = true;
}

std::size_t TrainingJob::shard_at(BlockIndex block) const {
  const auto found = std::find_if(shards_.begin(), shards_.end(), [block](const auto& shard) { return shard.block == block; });
  TROUPE_CHECK(found != shards_.end()) << "block " << block << " is not in rank " << rank_;
  return static_cast<std::size_t>(found - shards_.begin());
}

Status TrainingJob::resume() {
  if (!options_.save) return ok();
  auto newest = checkpoint::newest_complete(job_.job.output);
  if (absl::IsNotFound(newest.status())) {
    if (leads()) TROUPE_RETURN_IF_ERROR(cut_metrics(metrics_path(job_), StepId(0)));
  } else {
    TROUPE_RETURN_IF_ERROR(newest.status());
    TROUPE_ASSIGN_OR_RETURN(auto reader, checkpoint::CheckpointReader::open(newest->path));
    // Every byte once more than restoring needs: a run that goes on from a flipped bit would not be noticed for days.
    if (leads()) TROUPE_RETURN_IF_ERROR(checkpoint::verify(newest->path));
    TROUPE_ASSIGN_OR_RETURN(start_, restore(reader, plan_, shards_));
    if (start_.samples != start_.step.value * plan_.global_batch) {
      return absl::FailedPreconditionError(absl::StrCat(
          newest->path, " was saved after ", start_.samples, " samples in ", start_.step.value, " steps, but training.global_batch = ",
          plan_.global_batch, ": resume with the global batch it was made with"));
    }
    if (start_.data != 0 && start_.data != training_data_->fingerprint() && !job_.checkpoint.allow_other_data) {
      return absl::FailedPreconditionError(absl::StrCat(
          newest->path, " was made with other samples: the corpus data.train = ", job_.data.train, ", data.shuffle, training.seq_len = ",
          plan_.geometry.seq_len, " or job.seed = ", job_.job.seed,
          " is not what it was. Resume with the same, choose another job.output, or say --checkpoint.allow_other_data=true"));
    }
    if (!leads()) return ok();
    TROUPE_RETURN_IF_ERROR(cut_metrics(metrics_path(job_), start_.step));
    log_info(absl::StrCat("resuming after step ", start_.step.value, " from ", newest->path));
    for (const auto& setting : changed_settings(reader.manifest().facts.config, plan::resolved(job_))) {
      log_info(absl::StrCat("not as in the checkpoint: ", setting));
    }
  }
  if (!leads()) return ok();
  start_.data = training_data_->fingerprint();
  TROUPE_RETURN_IF_ERROR(checkpoint::remove_leftovers(*disk_, job_.job.output).status());
  return device::write_file_durably(job_.job.output + "/config.resolved.toml", plan::resolved(job_));
}

BlockTensorsOfStage TrainingJob::resident_tensors(BlockIndex block) const {
  const auto& layout = plan_.layout_of(block);
  const auto& shard = this->shard(block);
  BlockTensorsOfStage tensors;
  if (!share().splits_weights(layout)) tensors.weights = models::BlockWeights(layout, shard.weights.view());
  if (!share().splits_gradients()) tensors.gradients = models::BlockGradients(layout, shard.gradient.view());
  return tensors;
}

// This replica's part of every block is shown to the others, who fetch it after each update.
WholeWeights& TrainingJob::add_whole_weights(const actor::Ref& device) {
  WholeWeights::Setup setup{.blocks = plan_.blocks, .share = share(), .weights = {}, .fetch = fetches_weights()};
  setup.weights.resize(plan_.blocks.size());
  for (const auto& shard : shards_) {
    const auto own = shard.weights_of(shard.own_begin, shard.own_end);
    slices_->show(comm::SliceId(shard.block.value), {static_cast<const std::byte*>(own.raw()), static_cast<std::size_t>(own.bytes())});
    if (!share().splits_weights(plan_.layout_of(shard.block))) setup.weights[static_cast<std::size_t>(shard.block.value)] = shard.weights.view();
  }
  auto& whole = system_->add<WholeWeights>("weights", std::move(setup));
  whole.connect_to(device);
  return whole;
}

WeightRooms::Fetch TrainingJob::fetches_weights() const {
  return [this](BlockIndex block, int member, StepId step, std::span<std::byte> into, comm::Completion done) {
    slices_->fetch(plan_.placement.rank_of(member, part_), comm::SliceId(block.value), step.value, into, std::move(done));
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
                           .fetch = fetches_weights()});
    rooms.connect_to(device);
    setup.weight_rooms = rooms.self();
  }
  if (share().splits_gradients()) {
    auto& rooms = system_->add<GradientRooms>(absl::StrCat("gradients-", stage_shape.index.value), memory);
    rooms.connect_to(device);
    setup.gradient_rooms = rooms.self();
  }
}

void TrainingJob::build() {
  const auto& model = plan_.model;
  const auto seed = static_cast<std::uint64_t>(job_.job.seed);
  system_ = std::make_unique<actor::System>(world_.system);
  device::Buffer scratch = pool_->take("scratch", plan_.memory[static_cast<std::size_t>(part_)].scratch_bytes);
  compute_ = world_.make_stream("compute", plan_.threads, std::move(scratch));
  copy_ = world_.make_stream("copy", 1, {});
  loader_ = world_.make_stream("loader", 1, {});
  storage_ = world_.make_stream("storage", 1, {});
  metrics_ = world_.make_stream("metrics", 1, {});

  auto& device = system_->add<DeviceLoop>("device", *compute_, world_.clock, world_.max_operations);
  CollectiveGroup *group = nullptr, *both_uses = nullptr;
  WholeWeights* whole_weights = nullptr;
  if (world_.transport) {
    engine_ = std::make_unique<comm::CollectiveEngine>(*world_.transport);
    link_ = std::make_unique<Link>(*world_.transport);
    slices_ = std::make_unique<comm::Slices>(*world_.transport);
    if (share().splits_optimizer()) whole_weights = &add_whole_weights(device.self());
    std::vector<Rank> all;
    for (int rank = 0; rank < plan_.placement.world(); ++rank) all.push_back(Rank(rank));
    engine_->add_group(kAll, all);
    if (plan_.replicas > 1) {
      const auto ranks = plan_.placement.ranks_of_part(part_);
      std::vector<int> nodes;
      for (const Rank rank : ranks) {
        if (!world_.node_of.empty()) nodes.push_back(world_.node_of[static_cast<std::size_t>(rank.value)]);
      }
      engine_->add_group(kReplicas, ranks, nodes);
      group = &system_->add<CollectiveGroup>("replicas", *engine_, kReplicas);
    }
    if (plan_.placement.parts > 1) {
      edges_ = world_.make_stream("edges", 1, {});
      far_ = std::make_unique<FarEdges>(*system_, *world_.transport, *edges_);
    }
    if (share().uses_apart && (part_ == 0 || plan_.copies_embedding(part_))) {
      engine_->add_group(kBothUses, {plan_.placement.rank_of(replica_number_, 0),
                                     plan_.placement.rank_of(replica_number_, plan_.placement.parts - 1)});
      both_uses = &system_->add<CollectiveGroup>("both-uses", *engine_, kBothUses);
    }
  }

  std::vector<ParameterShard*> shards;
  for (auto& memory : shards_) {
    shards.push_back(&system_->add<ParameterShard>(
        absl::StrCat("shard-", memory.block.value),
        ParameterShard::Setup{.model = model, .layout = plan_.layout_of(memory.block), .memory = memory, .kernels = world_.kernels,
                              .compute = *compute_, .copy = *copy_, .optimizer = job_.optimizer, .seed = seed,
                              .restored = start_.step.value > 0, .start = start_.step,
                              .uses = plan::gradient_uses(model, memory.block, share()),
                              .micro_batches = plan_.micro_batches, .share = share(), .written = tells_written(memory.block, whole_weights),
                              .both_uses = both_uses && memory.block.value == 0 ? both_uses->self() : actor::Ref()}));
  }
  std::vector<actor::Ref> shard_refs;
  for (auto* shard : shards) shard_refs.push_back(shard->self());

  std::vector<Stage*> stages;
  const auto shapes = plan_.stages_of(part_);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const auto& shape = shapes[i];
    const std::int32_t first = shape.first() ? 0 : shape.block(0).value;
    const std::int32_t end = shape.last() ? model.head_block().value + 1 : shape.block(shape.layers()).value;
    Stage::Setup setup{.plan = plan_, .shape = shape, .memory = stages_[i], .kernels = world_.kernels, .stream = *compute_, .seed = seed};
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
    if (whole_weights) setup.whole_weights = whole_weights->self();
    add_rooms(i, device.self(), setup);
    stages.push_back(&system_->add<Stage>(absl::StrCat("stage-", shape.index.value), std::move(setup)));
  }

  std::vector<std::vector<models::MicroBatchInputs>*> inputs, evaluation_inputs;
  for (auto& memory : stages_) {
    inputs.push_back(&memory.inputs);
    evaluation_inputs.push_back(&memory.evaluation_inputs);
  }
  const auto layout = data::BatchLayout::create(plan_.global_batch, plan_.geometry.batch, plan_.replicas);
  TROUPE_CHECK(layout.ok()) << std::string(layout.status().message());
  auto& source = system_->add<Source>(
      "source", Source::Setup{.feed = {.port = "batch-", .source = *training_data_, .geometry = plan_.geometry, .samples = {},
                                       .loader = *loader_, .inputs = inputs},
                              .layout = *layout,
                              .replica = replica_number_,
                              .first_step = StepId(start_.step.value + 1),
                              .last_step = job_.training.steps,
                              .in_flight = shapes.front().in_flight,
                              .pulls = plan_.pulls,
                              .asks = part_ == 0});
  auto& replica = system_->add<Replica>("replica", Replica::Setup{.share = share(), .rank = rank_, .first = part_ == 0,
                                                                   .job = plan::fingerprint(job_)});
  replica_ = replica.self();
  Evaluator* evaluator = nullptr;
  auto& writer = system_->add<CheckpointWriter>(
      "checkpoint-writer", CheckpointWriter::Setup{.plan = plan_, .rank = rank_, .shards = shards_, .storage = *storage_, .disk = *disk_,
                                                   .clock = world_.clock, .output = job_.job.output, .config = plan::resolved(job_),
                                                   .seed = seed, .keep_latest_k = job_.checkpoint.keep_latest_k});
  if (evaluates()) {
    evaluator = &system_->add<Evaluator>("evaluator",
                                         BatchFeed::Setup{.port = "batch-", .source = *validation_data_, .geometry = plan_.geometry,
                                                          .samples = {}, .loader = *loader_, .inputs = evaluation_inputs},
                                         plan_.evaluation_batches);
  }
  std::vector<actor::Ref> writers;
  actor::Ref assigner;
  if (leads()) {
    auto& reporter = system_->add<Reporter>(
        "reporter", Reporter::Setup{.plan = plan_, .metrics_path = metrics_path(job_), .metrics = *metrics_, .tokens = start_.tokens,
                                    .steps = job_.training.steps, .peak_flops_per_s = options_.peak_flops_per_s,
                                    .console = options_.console, .log_every = job_.metrics.log_every,
                                    .on_step = options_.on_step});
    auto& ledger = system_->add<Ledger>("ledger", Ledger::Setup{.plan = plan_, .job = job_, .start = start_, .save = options_.save,
                                                                .hold_after = options_.hold_after, .compute = *compute_});
    ledger_ = ledger.self();
    std::vector<actor::Ref> replicas{replica.self()}, evaluators;
    writers = {writer.self()};
    if (evaluator) evaluators.push_back(evaluator->self());
    for (int rank = 1; rank < plan_.placement.world(); ++rank) {
      if (evaluator && rank < plan_.placement.parts) evaluators.push_back(link_->remote(*system_, Rank(rank), "evaluator"));
      replicas.push_back(link_->remote(*system_, Rank(rank), "replica"));
      writers.push_back(link_->remote(*system_, Rank(rank), "checkpoint-writer"));
    }
    ledger.connect_to(replicas, writer.self(), reporter.self(), evaluators);
    if (plan_.pulls) {
      auto& gives = system_->add<Assigner>("assigner", Assigner::Setup{.replicas = plan_.replicas, .micro_batches = plan_.step_micro_batches(),
                                                                       .start = start_.step, .record = std::move(record_)});
      std::vector<std::vector<actor::Ref>> processes(static_cast<std::size_t>(plan_.replicas));
      for (std::size_t rank = 0; rank < replicas.size(); ++rank) {
        const int replica_of = plan_.placement.replica_of(Rank(static_cast<std::int32_t>(rank)));
        processes[static_cast<std::size_t>(replica_of)].push_back(replicas[rank]);
      }
      gives.connect_to(std::move(processes));
      assigner = gives.self();
    }
  } else {
    ledger_ = link_->remote(*system_, Rank(0), "ledger");
    writers = {link_->remote(*system_, Rank(0), "checkpoint-writer")};
    if (plan_.pulls) assigner = link_->remote(*system_, Rank(0), "assigner");
  }
  writer.connect_to(ledger_, writers);
  if (link_) {
    link_->expose(leads() ? "ledger" : "replica", leads() ? ledger_ : replica.self());
    link_->expose("checkpoint-writer", writer.self());
    if (leads() && plan_.pulls) link_->expose("assigner", assigner);
    if (evaluator && !leads()) link_->expose("evaluator", evaluator->self());
    world_.transport->on_peer_down([this, agent = replica.self()](Rank rank, const Status& cause) {
      agent.send(PeerWentDown{rank, cause});
      if (far_) far_->peer_down(rank, cause);
      engine_->peer_down(rank, cause);
      slices_->peer_down(rank, cause);
    });
  }

  for (std::size_t i = 0; i < stages.size(); ++i) {
    const auto& shape = shapes[i];
    stages[i]->connect_to(device.self(), replica.self(), plan_.pulls && shape.first() ? source.self() : actor::Ref());
    actor::connect(source.feed().out(static_cast<int>(i)), stages[i]->batch, {.credits = shape.batch_credits});
    if (evaluator) {
      actor::connect(evaluator->feed().out(static_cast<int>(i)), stages[i]->evaluation_batch, {.credits = plan::kEvaluationCredits});
    }
  }
  connect_stages({.plan = plan_, .rank = rank_, .stages = stages, .memory = stages_, .evaluates = evaluates(), .far = far_.get()});
  for (auto* shard : shards) {
    shard->connect_to(device.self(), replica.self(), writer.self(), group ? group->self() : actor::Ref());
  }
  std::vector<actor::Ref> stage_refs;
  for (auto* stage : stages) stage_refs.push_back(stage->self());
  source.connect_to(replica.self(), stage_refs);
  replica.connect_to(ledger_, source.self(), shard_refs, assigner);
}

TrainingJob::~TrainingJob() {
  // Streams first: what they still run reads the actors' memory and posts to them.
  const auto deadline = std::chrono::nanoseconds(static_cast<std::int64_t>(job_.limits.shutdown_seconds * 1e9));
  if (system_) {
    if (Status status = system_->shutdown(deadline); !status.ok()) log_error(std::string(status.message()));
  }
  for (auto* stream : {&compute_, &copy_, &loader_, &storage_, &metrics_, &edges_}) stream->reset();
}

Status TrainingJob::run() {
  start();
  return wait();
}

void TrainingJob::start() {
  std::lock_guard lock(stop_mutex_);
  system_->start();
  started_ = true;
  if (world_.transport) {
    const Status status = world_.transport->start();
    TROUPE_CHECK(status.ok()) << std::string(status.message());
  }
  if (stop_reason_) ledger_.send(StopRequested{*stop_reason_});
}

Status TrainingJob::wait() {
  const Status status = system_->wait();
  if (!world_.transport) return status;
  if (!status.ok()) {
    world_.transport->stop(status);  // the others see this rank go and why, and nobody writes into its memory any more
    return status;
  }
  return meet_at_the_end();
}

Status TrainingJob::meet_at_the_end() {
  auto met = std::make_shared<std::promise<Status>>();
  auto end = met->get_future();
  meet_others([met](Status result) { met->set_value(std::move(result)); });
  const auto deadline = std::chrono::nanoseconds(static_cast<std::int64_t>(job_.limits.shutdown_seconds * 1e9));
  if (end.wait_for(deadline) != std::future_status::ready) log_warning("the other ranks did not come to the end in time");
  world_.transport->stop();
  return ok();
}

void TrainingJob::meet_others(comm::Completion met) {
  engine_->start(kAll, comm::OperationId(-1), {.what = "end of the job"}, std::move(met));
}

void TrainingJob::hold_after(StepId step) { ledger_.send(HoldAfter{step}); }

void TrainingJob::request_stop(const std::string& reason) {
  std::lock_guard lock(stop_mutex_);
  if (started_) {
    ledger_.send(StopRequested{reason});
  } else {
    stop_reason_ = reason;
  }
}

JobSummary TrainingJob::summary() const {
  return {.pool_takes = pool_->takes(), .pool_peak_bytes = pool_->peak_bytes(), .pool_used_bytes = pool_->used_bytes(),
          .compute_waited_ns = compute_->waited_ns(), .pool_bytes_by_term = pool_->bytes_by_term()};
}

}  // namespace troupe::actors
