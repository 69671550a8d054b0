// Writes consistent snapshots as checkpoints, on the storage stream, beside training.
//
// Acts:  SaveRequested and SnapshotTaken of every block -> shards, manifest, marker, rename (models/checkpoint) on the storage stream ->
//        prune -> SaveDone to the ledger, whatever became of it: a full disk ends a save, not the run.
// Holds: the shards' snapshot buffers between SnapshotTaken and SaveDone.
#pragma once

#include <vector>

#include "actors/plan/plan.h"
#include "actors/plan/shard_memory.h"
#include "actors/protocol.h"
#include "models/checkpoint/disk.h"
#include "models/checkpoint/reader.h"
#include "models/checkpoint/writer.h"
#include "models/generate.h"
#include "runtime/actor/actor.h"

namespace troupe::actors {

class CheckpointWriter : public actor::Actor {
 public:
  struct Setup {
    const plan::Plan& plan;
    std::vector<plan::ShardMemory>& shards;  // by block
    device::Stream& storage;
    const checkpoint::Disk& disk;
    const Clock& clock;
    std::string output;
    std::string config;                      // resolved, goes into the manifest
    std::uint64_t seed = 0;
    int keep_latest_k = 0;
  };
  explicit CheckpointWriter(Setup setup);
  void connect_to(actor::Ref ledger) { ledger_ = std::move(ledger); }

 private:
  void save_requested(SaveRequested message);
  void snapshot_taken(SnapshotTaken message);
  void write_when_complete();

  const Setup setup_;
  actor::Ref ledger_;
  std::optional<RunState> requested_;
  std::size_t taken_ = 0;
};

// The tensors of a checkpoint: parameters and both moments of every block, padding rows left out.
std::vector<checkpoint::TensorSource> snapshot_sources(const plan::Plan& plan, std::vector<plan::ShardMemory>& shards);
checkpoint::CheckpointFacts facts_of(const plan::Plan& plan, const RunState& state, std::uint64_t seed, const std::string& config);

// Fills master and moments of every shard from a checkpoint of the same model; gives the state it was saved in.
// Errors: those of CheckpointReader. Start-up only: reads the disk.
StatusOr<RunState> restore(const checkpoint::CheckpointReader& reader, const plan::Plan& plan, std::vector<plan::ShardMemory>& shards);

// Only the parameters, into a generator's host memory.
Status load_parameters(const checkpoint::CheckpointReader& reader, const models::ModelConfig& model, models::Generator& generator);

}  // namespace troupe::actors
