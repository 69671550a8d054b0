#include "actors/train/checkpoint_writer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "models/checkpoint/directory.h"
#include "runtime/base/log.h"
#include "runtime/device/shown.h"

namespace troupe::actors {
namespace {

using checkpoint::TensorKind;

struct FlatOfKind {
  TensorKind kind;
  const device::Tensor* snapshot;
  const device::Tensor* live;
};

std::vector<FlatOfKind> flats(const plan::ShardMemory& shard) {
  return {{TensorKind::kParameter, &shard.snapshot_master, &shard.master},
          {TensorKind::kAdamM, &shard.snapshot_m, &shard.m},
          {TensorKind::kAdamV, &shard.snapshot_v, &shard.v}};
}

checkpoint::Shape sizes_of(const device::Shape& shape) {
  checkpoint::Shape sizes;
  for (int dim = 0; dim < shape.dims(); ++dim) sizes.push_back(shape[dim]);
  return sizes;
}

// Elements of a block.
struct Range {
  std::int64_t begin = 0, end = 0;
};
Range common(const Range& a, const Range& b) { return {std::max(a.begin, b.begin), std::max(std::max(a.begin, b.begin), std::min(a.end, b.end))}; }
// A parameter's rows that are no padding: its first ones, so they are contiguous.
Range exported(const models::ParameterSpec& parameter) {
  return {parameter.offset, parameter.offset + parameter.exported_shape().elements()};
}

// Calls back with the slices of the exported tensor that make up `part` of the block, and where in the block each lies.
template <class Call>
void for_each_slice(const models::ParameterSpec& parameter, const Range& part, const Call& call) {
  if (part.begin >= part.end) return;
  const auto shape = sizes_of(parameter.exported_shape());
  std::int64_t at = part.begin;
  for (const auto& slice : checkpoint::cover_flat_range(shape, part.begin - parameter.offset, part.end - part.begin)) {
    const std::int64_t count = checkpoint::element_count(slice.sizes).value();
    call(shape, slice, Range{at, at + count});
    at += count;
  }
}

// Elements [range) of a block in a flat buffer that begins with element `first`.
std::span<std::byte> bytes_of(const device::Tensor& flat, const Range& range, std::int64_t first) {
  auto* values = flat.view().data<float>() + (range.begin - first);
  return std::as_writable_bytes(std::span(values, static_cast<std::size_t>(range.end - range.begin)));
}

// How a writer tells the leader what it wrote: a file that is gone when the checkpoint is complete.
std::string record_path(const std::string& folder, int rank) { return absl::StrFormat("%s/shard-%05d.json", folder, rank); }

}  // namespace

CheckpointWriter::CheckpointWriter(Setup setup)
    : setup_(std::move(setup)),
      own_(static_cast<std::size_t>(std::count_if(setup_.shards.begin(), setup_.shards.end(), [](const auto& shard) { return !shard.copy; }))) {
  on(&CheckpointWriter::save_requested);
  on(&CheckpointWriter::snapshot_taken);
  on(&CheckpointWriter::begun);
  on(&CheckpointWriter::write_shard);
  on(&CheckpointWriter::shard_written);
  on(&CheckpointWriter::file_written);
  on(&CheckpointWriter::save_ended);
}

void CheckpointWriter::connect_to(actor::Ref ledger, std::vector<actor::Ref> writers) {
  ledger_ = std::move(ledger);
  writers_ = std::move(writers);
}

void CheckpointWriter::started() {
  names_ = {.snapshot = name_for("snapshot"), .folder = name_for("folder"), .file = name_for("file"), .commit = name_for("commit"), .writers = {}, .shards = {}};
  for (const auto& writer : writers_) names_.writers.push_back(name_for(writer.name()));
  for (const auto& shard : setup_.shards) names_.shards.push_back(name_for(shard_name(shard.block)));
}

void CheckpointWriter::save_requested(SaveRequested message) {
  TROUPE_CHECK(!requested_) << "a save of step " << message.state.step << " was asked while step " << requested_->step << " is being written";
  requested_ = message.state;
  begin_when_complete();
  show_state();
}

void CheckpointWriter::snapshot_taken(SnapshotTaken message) {
  if (message.step != snapshot_) taken_.clear();
  snapshot_ = message.step;
  taken_.push_back(message.block);
  begin_when_complete();
  write_when_complete();
  show_state();
}

void CheckpointWriter::begin_when_complete() {
  if (!requested_ || snapshot_ != requested_->step || taken_.size() < own_) return;
  begun_ns_ = setup_.clock.now_ns();
  setup_.storage.notify(device::shown(setup_.storage, {.what = "begin checkpoint", .step = requested_->step.value}, [this, writer = self(), step = requested_->step](device::StreamContext&) {
    auto save = checkpoint::CheckpointSave::begin(setup_.disk, setup_.output, step);
    if (save.ok()) save_.emplace(*std::move(save));
    writer.send(SaveBegun{save.status()});
  }));
}

void CheckpointWriter::begun(SaveBegun message) {
  first_failure_ = ok();
  if (!message.result.ok()) {
    send(ledger_, SaveDone{requested_->step, message.result, "", setup_.clock.now_ns() - begun_ns_});
    requested_.reset();
    show_state();
    return;
  }
  written_.assign(writers_.size(), false);
  for (const auto& writer : writers_) send(writer, WriteShard{requested_->step});
  show_state();
}

void CheckpointWriter::write_shard(WriteShard message) {
  asked_ = message.step;
  write_when_complete();
  show_state();
}

void CheckpointWriter::write_when_complete() {
  if (!asked_ || snapshot_ != *asked_ || taken_.size() < own_) return;
  const StepId step = *std::exchange(asked_, std::nullopt);
  writing_ = true;
  setup_.storage.notify(device::shown(setup_.storage, {.what = "write checkpoint", .step = step.value}, [this, step, leader = writers_.front(), own = self()](device::StreamContext&) {
    const auto write = [&]() -> Status {
      const auto folder = checkpoint::writing_folder(setup_.output, step);
      const auto sources = snapshot_sources(setup_.plan, setup_.shards);
      TROUPE_ASSIGN_OR_RETURN(const auto record, checkpoint::write_shard(setup_.disk, folder, setup_.rank.value, sources));
      TROUPE_ASSIGN_OR_RETURN(const std::string text, checkpoint::to_text(record));
      return setup_.disk.write_file_durably(record_path(folder, setup_.rank.value), text).status();
    };
    const Status written = write();
    own.send(FileWritten{});  // before anybody can hear of it and end the job
    leader.send(ShardWritten{step, setup_.rank, written});
  }));
}

void CheckpointWriter::file_written(FileWritten) {
  writing_ = false;
  show_state();
}

void CheckpointWriter::shard_written(ShardWritten message) {
  if (!message.result.ok() && first_failure_.ok()) {
    const std::string who = writers_.size() > 1 ? absl::StrCat("rank ", message.rank.value, ": ") : "";
    first_failure_ = Status(message.result.code(), absl::StrCat(who, std::string(message.result.message())));
  }
  // All of them, also after a failure: nobody writes into the folder when it goes.
  written_.at(static_cast<std::size_t>(message.rank.value)) = true;
  if (std::find(written_.begin(), written_.end(), false) != written_.end()) return show_state();
  written_.clear();
  committing_ = true;
  show_state();
  const RunState state = *std::exchange(requested_, std::nullopt);
  setup_.storage.notify(device::shown(setup_.storage, {.what = "commit checkpoint", .step = state.step.value}, [this, state, failure = first_failure_, began_ns = begun_ns_, ledger = ledger_, own = self()](device::StreamContext&) {
    const Status result = failure.ok() ? commit(state) : failure;
    save_.reset();  // a failed save's folder goes
    own.send(SaveEnded{});
    ledger.send(SaveDone{state.step, result, result.ok() ? checkpoint::final_folder(setup_.output, state.step) : "",
                         setup_.clock.now_ns() - began_ns});
  }));
}

void CheckpointWriter::save_ended(SaveEnded) {
  committing_ = false;
  show_state();
}

// Empty where all blocks lie in their snapshot buffers.
trace::Name CheckpointWriter::without_snapshot(StepId step) {
  for (std::size_t i = 0; i < setup_.shards.size(); ++i) {
    const auto& shard = setup_.shards[i];
    const bool taken = snapshot_ == step && std::find(taken_.begin(), taken_.end(), shard.block) != taken_.end();
    if (!shard.copy && !taken) return names_.shards[i];
  }
  return {};
}

void CheckpointWriter::show_state() {
  using trace::State;
  const std::optional<StepId> step = requested_ ? requested_->step : asked_;
  if (committing_ || writing_) return set_state(State::kRunning, committing_ ? names_.commit : names_.file, snapshot_.value);
  if (!step) return set_state(State::kIdle);
  if (const trace::Name shard = without_snapshot(*step); shard.id != 0) return set_state(State::kWaitingForInput, names_.snapshot, step->value, shard);
  const auto missing = static_cast<std::size_t>(std::find(written_.begin(), written_.end(), false) - written_.begin());
  if (missing == written_.size()) return set_state(State::kRunning, names_.folder, step->value);
  set_state(State::kWaitingForInput, names_.file, step->value, names_.writers[missing]);
}

// On the storage stream.
Status CheckpointWriter::commit(const RunState& state) {
  for (std::size_t rank = 0; rank < writers_.size(); ++rank) {
    const std::string path = record_path(save_->folder(), static_cast<int>(rank));
    TROUPE_ASSIGN_OR_RETURN(const std::string text, device::read_file(path));
    TROUPE_ASSIGN_OR_RETURN(auto record, checkpoint::parse_shard_record(path, text));
    save_->add(std::move(record));
    TROUPE_RETURN_IF_ERROR(setup_.disk.remove_all(path));
  }
  TROUPE_RETURN_IF_ERROR(save_->commit(facts_of(setup_.plan, state, setup_.seed, setup_.config)).status());
  // The checkpoint is there whatever becomes of the older ones.
  if (const Status pruned = checkpoint::prune(setup_.disk, setup_.output, setup_.keep_latest_k).status(); !pruned.ok()) {
    log_warning(absl::StrCat("an older checkpoint could not be removed: ", std::string(pruned.message())));
  }
  return ok();
}

std::vector<checkpoint::TensorSource> snapshot_sources(const plan::Plan& plan, std::vector<plan::ShardMemory>& shards) {
  std::vector<checkpoint::TensorSource> sources;
  for (const auto& shard : shards) {
    if (shard.copy) continue;
    for (const auto& parameter : plan.layout_of(shard.block).parameters) {
      const Range part = common(exported(parameter), {shard.own_begin, shard.own_end});
      for (const auto& flat : flats(shard)) {
        for_each_slice(parameter, part, [&](const checkpoint::Shape& shape, const checkpoint::Slice& slice, Range range) {
          sources.push_back({.name = parameter.name, .kind = flat.kind, .shape = shape, .slice = slice,
                             .bytes = bytes_of(*flat.snapshot, range, shard.own_begin)});
        });
      }
    }
  }
  return sources;
}

checkpoint::CheckpointFacts facts_of(const plan::Plan& plan, const RunState& state, std::uint64_t seed, const std::string& config) {
  return {.model = models::describe(plan.model), .step = state.step, .samples = state.samples, .tokens = state.tokens, .seed = seed,
          .doubles = {{"loss_average", state.loss_average}},
          .integers = {{"averaged", state.averaged}, {"skipped", state.skipped}, {"skipped_in_a_row", state.skipped_in_a_row},
                       {"updates", state.updates}, {"data", static_cast<std::int64_t>(state.data)}},
          .config = config};
}

StatusOr<RunState> restore(const checkpoint::CheckpointReader& reader, const plan::Plan& plan, std::vector<plan::ShardMemory>& shards) {
  std::vector<checkpoint::TensorSpec> expected;
  for (const auto& block : plan.blocks) {
    for (const auto& parameter : block.parameters) {
      for (auto kind : {TensorKind::kParameter, TensorKind::kAdamM, TensorKind::kAdamV}) {
        expected.push_back({.name = parameter.name, .kind = kind, .shape = sizes_of(parameter.exported_shape())});
      }
    }
  }
  TROUPE_RETURN_IF_ERROR(reader.check_model(models::describe(plan.model), expected));
  for (const auto& shard : shards) {
    const auto& layout = plan.layout_of(shard.block);
    const Range held{shard.held_begin, shard.held_end};
    for (const auto& parameter : layout.parameters) {
      Status loaded;
      const auto load = [&](TensorKind kind, const Range& part, const device::Tensor& into, std::int64_t first) {
        for_each_slice(parameter, part, [&](const checkpoint::Shape& shape, const checkpoint::Slice& slice, Range range) {
          if (loaded.ok()) loaded = reader.load({.name = parameter.name, .kind = kind, .shape = shape}, slice, bytes_of(into, range, first));
        });
      };
      const Range part = common(exported(parameter), held);
      load(TensorKind::kParameter, part, shard.master, held.begin);
      load(TensorKind::kAdamM, part, shard.m, held.begin);
      load(TensorKind::kAdamV, part, shard.v, held.begin);
      TROUPE_RETURN_IF_ERROR(loaded);
    }
  }
  const auto& facts = reader.manifest().facts;
  // What older programs did not write is 0.
  const auto integer = [&](const char* key) {
    const auto it = facts.integers.find(key);
    return it == facts.integers.end() ? 0 : it->second;
  };
  RunState state{.step = facts.step, .samples = facts.samples, .tokens = facts.tokens, .updates = integer("updates"),
                 .skipped = integer("skipped"), .averaged = integer("averaged"), .skipped_in_a_row = integer("skipped_in_a_row"),
                 .data = static_cast<std::uint64_t>(integer("data"))};
  if (auto it = facts.doubles.find("loss_average"); it != facts.doubles.end()) state.loss_average = it->second;
  return state;
}

Status load_parameters(const checkpoint::CheckpointReader& reader, const models::ModelConfig& model, models::Generator& generator) {
  for (std::int32_t block = 0; block < model.blocks(); ++block) {
    for (const auto& parameter : generator.layout(BlockIndex(block)).parameters) {
      const auto shape = sizes_of(parameter.exported_shape());
      auto* values = generator.weights(BlockIndex(block)).data<float>() + parameter.offset;
      const std::span exported(values, static_cast<std::size_t>(parameter.exported_shape().elements()));
      TROUPE_RETURN_IF_ERROR(reader.load({.name = parameter.name, .shape = shape}, checkpoint::whole(shape),
                                         std::as_writable_bytes(exported)));
    }
  }
  return ok();
}

}  // namespace troupe::actors
