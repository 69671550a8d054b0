// What a checkpoint is: of which model and run, at which step, in which files, and where each tensor's slices
// lie in them.
//
// A JSON file, `manifest.json`, last but one to be written; the marker COMPLETE holds its hash. Layout:
// README.md.
//
// Threads: any. Errors: kInvalidArgument naming file, key, what stands there and what is allowed;
// kFailedPrecondition for a format version newer than this program's. Invariants: text -> manifest -> text is
// the identity, doubles to the bit (Manifest.RoundTripsExactly); a missing or mistyped key is named
// (Manifest.NamesTheKeyThatIsWrong).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/checkpoint/element_type.h"
#include "models/checkpoint/slice.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"

namespace troupe::checkpoint {

constexpr std::int64_t kFormatVersion = 1;

enum class TensorKind : std::uint8_t { kParameter, kAdamM, kAdamV };
std::string_view name(TensorKind kind);  // "parameter" "adam_m" "adam_v"

struct FileFacts {
  std::string name;  // in the checkpoint's folder
  std::int64_t bytes = 0;
  std::string xxh3_128;
};

// One slice of one tensor, where it lies. Slices of one (name, kind) tile its shape.
struct TensorPiece {
  std::string name;  // Hugging Face's
  TensorKind kind = TensorKind::kParameter;
  ElementType type = ElementType::kF32;
  Shape shape;  // of the whole tensor
  Slice slice;
  std::string file;
  std::int64_t begin_bytes = 0;  // within the file
  std::int64_t end_bytes = 0;
};

// What one writer put into the folder. Sent to the process that commits.
struct ShardRecord {
  std::vector<FileFacts> files;
  std::vector<TensorPiece> tensors;
};

// What the run tells about itself.
struct CheckpointFacts {
  std::string model;  // the model's configuration, a JSON object
  StepId step;
  std::int64_t samples =
      0;  // data cursor: samples consumed since the run's start (CASES T03: samples, not iterations)
  std::int64_t tokens = 0;
  std::uint64_t seed = 0;
  std::map<std::string, double> doubles;         // e.g. loss_average
  std::map<std::string, std::int64_t> integers;  // e.g. skipped_steps
  std::string config;                            // the resolved configuration of the run
};

struct Manifest {
  std::string troupe_version;
  std::string model_fingerprint;
  CheckpointFacts facts;
  ShardRecord shard;  // all files and tensors
};

// XXH3-128 of the description with keys sorted and spaces gone, so that neither counts.
StatusOr<std::string> model_fingerprint(const std::string& model);
// "rope_theta: 10000.0 here, 500000.0 there"; empty when they say the same.
std::string first_difference(const std::string& model_here, const std::string& model_there);

StatusOr<std::string> to_text(const Manifest& manifest);
StatusOr<Manifest> parse_manifest(const std::string& file,
                                  const std::string& text);  // `file` is for messages
StatusOr<std::string> to_text(const ShardRecord& shard);
StatusOr<ShardRecord> parse_shard_record(const std::string& source, const std::string& text);

// Every tensor's slices agree on type and shape, and tile it. kInvalidArgument names the first tensor that
// does not.
Status check_tiling(std::span<const TensorPiece> pieces);

}  // namespace troupe::checkpoint
