// Loads any slice of any tensor of a complete checkpoint, however it was sliced when it was saved (CASES
// T18).
//
// Work for a storage stream. Threads: any, const. Owns: no descriptor between calls.
// Errors: kNotFound no such folder or tensor; kFailedPrecondition incomplete, of another model, or of a newer
// format; kDataLoss torn or altered; each names the folder or file, and the tensor. Limits: memory is the
// manifest and one window of 4 MiB per call. Invariants: a slice loaded equals the same slice of what was
// saved (Reader.LoadsAnySliceHoweverItWasSaved); a torn file is found at open (ReaderOfASample.RefusesATornFile), a
// flipped byte by verify() of inspect.h (Inspect.FindsAFlippedByte).
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/checkpoint/manifest.h"
#include "runtime/base/status.h"

namespace troupe::checkpoint {

// A tensor as a model expects it.
struct TensorSpec {
  std::string name;
  TensorKind kind = TensorKind::kParameter;
  ElementType type = ElementType::kF32;
  Shape shape{};
};

class CheckpointReader {
 public:
  // Checks marker, manifest and the length of every file; reads no tensor.
  static StatusOr<CheckpointReader> open(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }

  // The checkpoint holds exactly these tensors, of a model with this description. kFailedPrecondition names
  // the first tensor that is missing, differs (both shapes) or is too many; else the first key of the
  // description that differs.
  Status check_model(const std::string& model, std::span<const TensorSpec> expected) const;

  // Fills `destination`, dense, with a slice of the tensor. Nothing is converted: the type must be the saved
  // one.
  Status load(const TensorSpec& tensor, const Slice& slice, std::span<std::byte> destination) const;

 private:
  using Key = std::pair<std::string, TensorKind>;
  CheckpointReader(std::string folder, Manifest manifest);
  Status check_tensor(const TensorSpec& expected) const;
  std::string folder_;
  Manifest manifest_;
  std::map<Key, std::vector<std::size_t>> pieces_;  // indexes into manifest_.shard.tensors
};

}  // namespace troupe::checkpoint
