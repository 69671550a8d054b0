// Writes consistent snapshots as checkpoints, on the storage stream, beside training. Each process has one, which writes the parts of the
// parameters and moments that are its own, so each byte is written once; that of rank 0 leads.
//
// Acts:  SaveRequested and SnapshotTaken of every block -> the folder is made -> WriteShard to the other writers; each writes its file
//        (models/checkpoint) -> ShardWritten -> manifest, marker, rename -> prune -> SaveDone to the ledger, whatever became of it: a full
//        disk ends a save, not the run.
// Says: which block's snapshot or which rank's file it waits for, and what it does on the storage stream.
// Holds: the shards' snapshot buffers between SnapshotTaken and its file's end.
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
    Rank rank{0};
    std::vector<plan::ShardMemory>& shards;  // of this process; copies are not written
    device::Stream& storage;
    const checkpoint::Disk& disk;
    const Clock& clock;
    std::string output;
    std::string config;                      // resolved, goes into the manifest
    std::uint64_t seed = 0;
    int keep_latest_k = 0;
  };
  explicit CheckpointWriter(Setup setup);
  // `writers` by rank: at rank 0 all of them, elsewhere the leader alone.
  void connect_to(actor::Ref ledger, std::vector<actor::Ref> writers);

 private:
  // The folder is there, or could not be made.
  struct SaveBegun {
    Status result;
  };
  // Our own file is written, or could not be.
  struct FileWritten {};
  // The save that we led has ended.
  struct SaveEnded {};
  void started() override;
  void file_written(FileWritten message);
  void save_ended(SaveEnded message);
  trace::Name without_snapshot(StepId step);
  void show_state();
  bool leads() const { return setup_.rank.value == 0; }
  void save_requested(SaveRequested message);
  void snapshot_taken(SnapshotTaken message);
  void begin_when_complete();
  void begun(SaveBegun message);
  void write_shard(WriteShard message);
  void write_when_complete();
  void shard_written(ShardWritten message);
  Status commit(const RunState& state);

  const Setup setup_;
  const std::size_t own_;                    // shards that are no copies
  actor::Ref ledger_;
  std::vector<actor::Ref> writers_;
  StepId snapshot_;                          // of this step ...
  std::vector<BlockIndex> taken_;            // ... these blocks lie in their snapshot buffers
  std::optional<StepId> asked_;              // to write our file of this step
  // The leader's:
  std::optional<RunState> requested_;        // being saved
  std::int64_t begun_ns_ = 0;
  std::vector<bool> written_;                // files, by rank; none while there is no folder
  Status first_failure_;
  bool writing_ = false, committing_ = false;
  struct {
    trace::Name snapshot, folder, file, commit;
    std::vector<trace::Name> writers, shards;
  } names_;
  std::optional<checkpoint::CheckpointSave> save_;  // touched on the storage stream only
};

// A process's own part of a checkpoint: of the parameters and both moments of its blocks, padding rows left out.
std::vector<checkpoint::TensorSource> snapshot_sources(const plan::Plan& plan, std::vector<plan::ShardMemory>& shards);
checkpoint::CheckpointFacts facts_of(const plan::Plan& plan, const RunState& state, std::uint64_t seed, const std::string& config);

// Fills master and moments of every shard from a checkpoint of the same model, whatever number of processes wrote it; gives the state it
// was saved in. Where the master is a part only, the whole parameters go into the gradient's room, from where the shard takes them.
// Errors: those of CheckpointReader. Start-up only: reads the disk.
StatusOr<RunState> restore(const checkpoint::CheckpointReader& reader, const plan::Plan& plan, std::vector<plan::ShardMemory>& shards);

// Only the parameters, into a generator's host memory.
Status load_parameters(const checkpoint::CheckpointReader& reader, const models::ModelConfig& model, models::Generator& generator);

}  // namespace troupe::actors
