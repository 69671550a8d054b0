// Where checkpoints lie below a run's output folder, which of them count, and how one appears and goes:
//
//   OUT/checkpoints/step-00000200/            complete: holds COMPLETE, appeared by a rename of the whole
//   folder OUT/checkpoints/.writing-step-00000300/   being saved, or left by a killed save
//   OUT/checkpoints/.deleting-step-00000100/  being pruned, or left by a killed prune
//
// A folder counts when its name is step-N and the marker COMPLETE, which is written last, lies in it (CASES
// T13).
//
// Threads: one storage stream per OUT; only the holder of the run's lock (run_lock.h) calls what changes the
// disk. Errors: of the disk. A missing OUT holds no checkpoints; that is no error. Invariants: whatever the
// moment of death, the newest complete checkpoint verifies, and it is never pruned
// (Checkpoint.KeepsTheLastCompleteOneWhenKilledDuringSave, Directory.PruneKeepsTheNewestOnes).
#pragma once

#include <string>
#include <vector>

#include "models/checkpoint/disk.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"

namespace troupe::checkpoint {

constexpr const char* kMarkerName = "COMPLETE";
constexpr const char* kManifestName = "manifest.json";

struct CheckpointFolder {
  StepId step;
  std::string path;
};

std::string checkpoints_folder(const std::string& out);
std::string final_folder(const std::string& out, StepId step);
std::string writing_folder(const std::string& out, StepId step);

// Newest first.
StatusOr<std::vector<CheckpointFolder>> list_complete(const std::string& out);
// kNotFound when there is none.
StatusOr<CheckpointFolder> newest_complete(const std::string& out);

// Makes the fully written, synced writing_folder the checkpoint of its step, in one rename. A complete
// checkpoint of the same step (the run went back and came here again) is exchanged with it and removed;
// kAlreadyExists where the file system cannot exchange.
Status publish(const Disk& disk, const std::string& out, StepId step);

// What killed saves and prunes left: temporary folders, and step folders without marker. Returns how many
// went.
StatusOr<int> remove_leftovers(const Disk& disk, const std::string& out);

// Removes all complete checkpoints but the newest `keep`; none when keep < 1. Returns how many went.
StatusOr<int> prune(const Disk& disk, const std::string& out, int keep);

}  // namespace troupe::checkpoint
