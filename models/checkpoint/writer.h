// Saves one checkpoint: shard files, then the manifest, then the marker, each synced, then one rename
// (directory.h).
//
// Work for a storage stream. Several processes may write shards into one folder at once: each calls
// write_shard with its own number and sends its record to the one that holds the CheckpointSave and commits.
//
//   begin -> write_shard / add (any number) -> commit;  destroyed before commit: the folder is removed
//
// Threads: one. Owns: the temporary folder. Limits: no copy of the sources is made; they must not change
// until write_shard returns (CASES T15, T16). Progress: the disk's probe sees every write with its bytes.
// Errors: kResourceExhausted a full disk, older checkpoints stay as they are; kInvalidArgument sources that
// do not tile their tensors. Invariants: Checkpoint.KeepsTheLastCompleteOneWhenKilledDuringSave,
// Checkpoint.FullDiskLeavesOlderOnesAndNoRest,
// Checkpoint.SyncsEverythingBeforeTheMarkerAndTheFolderBeforeTheRename.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "models/checkpoint/disk.h"
#include "models/checkpoint/manifest.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"

namespace troupe::checkpoint {

struct TensorSource {
  std::string name;  // Hugging Face's
  TensorKind kind = TensorKind::kParameter;
  ElementType type = ElementType::kF32;
  Shape shape;  // of the whole tensor
  Slice slice;  // the part that `bytes` holds, dense
  std::span<const std::byte> bytes;
};

// Writes model-%05d.safetensors (parameters) and optimizer-%05d.safetensors (moments, names end in .adam_m
// and .adam_v) into an existing folder; no file for a kind without sources. Slices that make up a whole
// tensor row by row are joined and keep the plain name; others are named by their offsets, "w@0,128".
StatusOr<ShardRecord> write_shard(const Disk& disk, const std::string& folder, int shard,
                                  std::span<const TensorSource> sources);

class CheckpointSave {
 public:
  // Makes the temporary folder, empty; what an earlier save of this step left there goes. `disk` must outlive
  // the save.
  static StatusOr<CheckpointSave> begin(const Disk& disk, const std::string& out, StepId step);
  CheckpointSave(CheckpointSave&& other) noexcept;
  CheckpointSave& operator=(CheckpointSave&&) = delete;
  ~CheckpointSave();

  const std::string& folder() const { return folder_; }  // for write_shard, also of other processes
  void add(ShardRecord shard);
  // Makes the checkpoint the newest one. facts.step must be begin's. Returns its final folder. Once: a failed
  // save is begun again.
  StatusOr<std::string> commit(const CheckpointFacts& facts);

 private:
  CheckpointSave(const Disk& disk, std::string out, StepId step, std::string folder)
      : disk_(&disk), out_(std::move(out)), step_(step), folder_(std::move(folder)) {}
  const Disk* disk_;
  std::string out_;
  StepId step_;
  std::string folder_;  // empty: committed or moved from
  ShardRecord shard_;
};

// All of it for a process that owns every tensor.
StatusOr<std::string> save_checkpoint(const Disk& disk, const std::string& out, const CheckpointFacts& facts,
                                      std::span<const TensorSource> sources);

}  // namespace troupe::checkpoint
