#include "actors/train/training_job.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "actors/control/end_meeting.h"
#include "actors/train/checkpoint_writer.h"
#include "models/checkpoint/directory.h"
#include "models/checkpoint/inspect.h"
#include "runtime/base/log.h"
#include "runtime/device/host_stream.h"

namespace troupe::actors {
namespace {

constexpr std::chrono::seconds kFolderShowsWithin{3};  // to other hosts, by a network file system

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
    : job_(std::move(job)), plan_(std::move(plan)), world_(world), options_(options), begun_ns_(trace::Ticks(world.system.clock).now_ns()),
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
  if (!leads()) return see_one_folder();
  TROUPE_ASSIGN_OR_RETURN(auto lock, checkpoint::RunLock::take(job_.job.output));
  lock_ = std::move(lock);
  if (!job_.checkpoint.resume && options_.save &&
      (std::filesystem::exists(metrics_path()) || std::filesystem::exists(checkpoint::checkpoints_folder(job_.job.output)))) {
    return absl::AlreadyExistsError(absl::StrCat("job.output = ", job_.job.output,
                                                 " holds a run and checkpoint.resume = false: choose another folder, or resume"));
  }
  return see_one_folder();
}

// Every rank writes its part of a checkpoint into the folder that rank 0 has made: a folder of a host's own would be found out by the first
// save only.
Status TrainingJob::see_one_folder() const {
  if (!world_.from_leader) return ok();
  TROUPE_ASSIGN_OR_RETURN(const std::string token, world_.from_leader("output", lock_ ? lock_->token() : ""));
  const Status found = checkpoint::find_run_lock(job_.job.output, token, kFolderShowsWithin);
  return world_.all_ok("output", found.ok() ? found : absl::FailedPreconditionError(absl::StrCat(
      "job.output = ", job_.job.output, " is not the folder that rank 0 has locked: ", found.message(),
      ": name one on a file system that all hosts of the job share")));
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
  TROUPE_ASSIGN_OR_RETURN(const std::string newest, newest_checkpoint());
  std::string config;  // of the run that saved it
  if (!newest.empty()) TROUPE_RETURN_IF_ERROR(load(newest, config));
  // Nobody changes anything before all have found it whole. Who has not ends the job, without waiting for the others to have read.
  if (world_.all_ok) TROUPE_RETURN_IF_ERROR(world_.all_ok("checkpoint", ok()));
  if (!leads()) return ok();
  TROUPE_RETURN_IF_ERROR(cut_metrics(metrics_path(), start_.step));
  if (!newest.empty()) {
    log_info(absl::StrCat("resuming after step ", start_.step.value, " from ", newest));
    for (const auto& setting : changed_settings(config, plan::resolved(job_))) log_info(absl::StrCat("not as in the checkpoint: ", setting));
  }
  start_.data = training_data_->fingerprint();
  TROUPE_RETURN_IF_ERROR(checkpoint::remove_leftovers(*disk_, job_.job.output).status());
  return device::write_file_durably(job_.job.output + "/config.resolved.toml", plan::resolved(job_));
}

// Rank 0's, whatever this rank has seen of the folder so far; empty: there is none.
StatusOr<std::string> TrainingJob::newest_checkpoint() const {
  std::string name;
  if (leads() || !world_.from_leader) {
    const auto newest = checkpoint::newest_complete(job_.job.output);
    if (!newest.ok() && !absl::IsNotFound(newest.status())) return newest.status();
    if (newest.ok()) name = std::filesystem::path(newest->path).filename().string();
  }
  if (world_.from_leader) {
    TROUPE_ASSIGN_OR_RETURN(name, world_.from_leader("newest checkpoint", name));
  }
  return name.empty() ? name : absl::StrCat(checkpoint::checkpoints_folder(job_.job.output), "/", name);
}

Status TrainingJob::load(const std::string& folder, std::string& config) {
  TROUPE_ASSIGN_OR_RETURN(auto reader, checkpoint::CheckpointReader::open(folder));
  // Every byte once more than restoring needs: a run that goes on from a flipped bit would not be noticed for days.
  if (world_.all_ok) {
    TROUPE_RETURN_IF_ERROR(checkpoint::verify_part(folder, rank_.value, plan_.placement.world()));
  } else if (leads()) {
    TROUPE_RETURN_IF_ERROR(checkpoint::verify(folder));
  }
  TROUPE_ASSIGN_OR_RETURN(start_, restore(reader, plan_, shards_));
  if (start_.samples != start_.step.value * plan_.global_batch) {
    return absl::FailedPreconditionError(absl::StrCat(
        folder, " was saved after ", start_.samples, " samples in ", start_.step.value, " steps, but training.global_batch = ",
        plan_.global_batch, ": resume with the global batch it was made with"));
  }
  if (start_.data != 0 && start_.data != training_data_->fingerprint() && !job_.checkpoint.allow_other_data) {
    return absl::FailedPreconditionError(absl::StrCat(
        folder, " was made with other samples: the corpus data.train = ", job_.data.train, ", data.shuffle, training.seq_len = ",
        plan_.geometry.seq_len, " or job.seed = ", job_.job.seed,
        " is not what it was. Resume with the same, choose another job.output, or say --checkpoint.allow_other_data=true"));
  }
  config = reader.manifest().facts.config;
  return ok();
}

TrainingJob::~TrainingJob() {
  // Streams first: what they still run reads the actors' memory and posts to them.
  const auto deadline = std::chrono::nanoseconds(static_cast<std::int64_t>(job_.limits.shutdown_seconds * 1e9));
  if (system_) {
    if (Status status = system_->shutdown(deadline); !status.ok()) log_error(std::string(status.message()));
  }
  for (auto* stream : {&compute_, &copy_, &loader_, &storage_, &metrics_, &terminal_, &edges_}) stream->reset();
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
  Status status = system_->wait();
  if (!world_.transport) return status;
  const auto within = std::chrono::nanoseconds(static_cast<std::int64_t>(job_.limits.shutdown_seconds * 1e9));
  if (status.ok()) status = meet_at_the_end(*engine_, kEverybody, within);
  world_.transport->stop(status);  // the others see this rank go and why, and nobody writes into its memory any more
  return status;
}

void TrainingJob::meet_others(comm::Completion met) { meet_at_the_end(*engine_, kEverybody, std::move(met)); }

void TrainingJob::hold_after(StepId step) { ledger_.send(HoldAfter{step}); }

void TrainingJob::request_stop(const std::string& reason) {
  std::lock_guard lock(stop_mutex_);
  if (started_) {
    system_->end_pauses();  // else the step in which it is to end might not
    ledger_.send(StopRequested{reason});
  } else {
    stop_reason_ = reason;
  }
}

StatusOr<actor::Controlled> TrainingJob::control(actor::Control what, const std::string& actor) {
  {
    std::lock_guard lock(stop_mutex_);
    if (!started_) return absl::FailedPreconditionError(absl::StrCat("rank ", rank_.value, " has not started its actors yet"));
  }
  return system_->control(what, actor);
}

void TrainingJob::peer_went_down(Rank rank, const Status& cause) {
  system_->end_pauses();  // else who hears of it might not
  replica_.send(PeerWentDown{rank, cause});
}

// Empty where none is asked for.
std::string TrainingJob::tensorboard_folder() const {
  return job_.metrics.tensorboard ? std::filesystem::path(job_.job.output) / job_.metrics.tensorboard_folder : std::filesystem::path();
}

JobSummary TrainingJob::summary() const {
  return {.pool_takes = pool_->takes(), .pool_peak_bytes = pool_->peak_bytes(), .pool_used_bytes = pool_->used_bytes(),
          .compute_waited_ns = compute_->waited_ns(), .pool_bytes_by_term = pool_->bytes_by_term()};
}

}  // namespace troupe::actors
