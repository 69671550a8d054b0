#include "actors/train/checkpoint_writer.h"

#include "absl/strings/str_cat.h"
#include "models/checkpoint/directory.h"
#include "runtime/base/log.h"

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

// The exported part of a parameter in a flat buffer: its first rows, so it is contiguous.
std::span<std::byte> bytes_of(const models::ParameterSpec& parameter, const device::Tensor& flat) {
  auto* values = flat.view().data<float>() + parameter.offset;
  return std::as_writable_bytes(std::span(values, static_cast<std::size_t>(parameter.exported_shape().elements())));
}

}  // namespace

CheckpointWriter::CheckpointWriter(Setup setup) : setup_(std::move(setup)) {
  on(&CheckpointWriter::save_requested);
  on(&CheckpointWriter::snapshot_taken);
}

void CheckpointWriter::save_requested(SaveRequested message) {
  TROUPE_CHECK(!requested_) << "a save of step " << message.state.step << " was asked while step " << requested_->step << " is being written";
  requested_ = message.state;
  write_when_complete();
}

void CheckpointWriter::snapshot_taken(SnapshotTaken) {
  ++taken_;
  write_when_complete();
}

void CheckpointWriter::write_when_complete() {
  if (!requested_ || taken_ < setup_.shards.size()) {
    set_state(trace::State::kWaitingForInput, {}, static_cast<std::int64_t>(taken_));
    return;
  }
  set_state(trace::State::kRunning, {}, requested_->step.value);
  const RunState state = *requested_;
  requested_.reset();
  taken_ = 0;
  setup_.storage.notify([this, state, ledger = ledger_](device::StreamContext&) {
    const auto begin = setup_.clock.now_ns();
    const auto sources = snapshot_sources(setup_.plan, setup_.shards);
    auto folder = checkpoint::save_checkpoint(setup_.disk, setup_.output, facts_of(setup_.plan, state, setup_.seed, setup_.config), sources);
    const Status result = folder.status();
    if (result.ok()) {  // the checkpoint is there whatever becomes of the older ones
      if (const Status pruned = checkpoint::prune(setup_.disk, setup_.output, setup_.keep_latest_k).status(); !pruned.ok()) {
        log_warning(absl::StrCat("an older checkpoint could not be removed: ", std::string(pruned.message())));
      }
    }
    ledger.send(SaveDone{state.step, result, folder.ok() ? *folder : "", setup_.clock.now_ns() - begin});
  });
}

std::vector<checkpoint::TensorSource> snapshot_sources(const plan::Plan& plan, std::vector<plan::ShardMemory>& shards) {
  std::vector<checkpoint::TensorSource> sources;
  for (std::size_t block = 0; block < shards.size(); ++block) {
    for (const auto& parameter : plan.blocks[block].parameters) {
      const auto shape = sizes_of(parameter.exported_shape());
      for (const auto& flat : flats(shards[block])) {
        sources.push_back({.name = parameter.name, .kind = flat.kind, .shape = shape, .slice = checkpoint::whole(shape),
                           .bytes = bytes_of(parameter, *flat.snapshot)});
      }
    }
  }
  return sources;
}

checkpoint::CheckpointFacts facts_of(const plan::Plan& plan, const RunState& state, std::uint64_t seed, const std::string& config) {
  return {.model = models::describe(plan.model), .step = state.step, .samples = state.samples, .tokens = state.tokens, .seed = seed,
          .doubles = {{"loss_average", state.loss_average}},
          .integers = {{"averaged", state.averaged}, {"skipped", state.skipped}, {"updates", state.updates},
                       {"data", static_cast<std::int64_t>(state.data)}},
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
  for (std::size_t block = 0; block < shards.size(); ++block) {
    for (const auto& parameter : plan.blocks[block].parameters) {
      const auto shape = sizes_of(parameter.exported_shape());
      for (const auto& flat : flats(shards[block])) {
        const checkpoint::TensorSpec spec{.name = parameter.name, .kind = flat.kind, .shape = shape};
        TROUPE_RETURN_IF_ERROR(reader.load(spec, checkpoint::whole(shape), bytes_of(parameter, *flat.live)));
      }
    }
  }
  const auto& facts = reader.manifest().facts;
  const auto integer = [&](const char* key) {
    const auto it = facts.integers.find(key);
    return it == facts.integers.end() ? 0 : it->second;
  };
  RunState state{.step = facts.step, .samples = facts.samples, .tokens = facts.tokens, .updates = integer("updates"),
                 .skipped = integer("skipped"), .averaged = integer("averaged"),
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
