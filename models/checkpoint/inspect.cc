#include "models/checkpoint/inspect.h"

#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "models/checkpoint/hash.h"
#include "models/checkpoint/reader.h"
#include "models/checkpoint/safetensors.h"

namespace troupe::checkpoint {
namespace {

// Type, begin and end within the file of each tensor: what manifest and header must agree on.
using Place = std::tuple<ElementType, std::int64_t, std::int64_t, Shape>;

Status verify_file(const std::string& folder, const FileFacts& facts, const Manifest& manifest) {
  const std::string path = absl::StrCat(folder, "/", facts.name);
  TROUPE_ASSIGN_OR_RETURN(const std::string hash, hash_of_file(path));
  if (hash != facts.xxh3_128) {
    return absl::DataLossError(absl::StrCat(path, ": altered: its XXH3-128 is ", hash, ", saved with ",
                                            facts.xxh3_128,
                                            ": take an older checkpoint or copy this one again"));
  }
  TROUPE_ASSIGN_OR_RETURN(const SafetensorsReader file, SafetensorsReader::open(path));
  std::multimap<Place, int> unlisted;
  for (const TensorEntry& tensor : file.tensors()) {
    const std::int64_t begin = file.data_begin_bytes();
    unlisted.emplace(Place{tensor.type, begin + tensor.begin_bytes, begin + tensor.end_bytes, tensor.shape},
                     0);
  }
  for (const TensorPiece& piece : manifest.shard.tensors) {
    if (piece.file != facts.name) continue;
    const auto found =
        unlisted.find(Place{piece.type, piece.begin_bytes, piece.end_bytes, piece.slice.sizes});
    if (found == unlisted.end()) {
      return absl::DataLossError(absl::StrCat(path, ": its header has no tensor where the manifest puts ",
                                              piece.name, " (", std::string(name(piece.kind)), ") ",
                                              to_string(piece.slice)));
    }
    unlisted.erase(found);
  }
  if (!unlisted.empty()) {
    return absl::DataLossError(
        absl::StrCat(path, ": holds ", unlisted.size(), " tensors that the manifest does not list"));
  }
  return ok();
}

}  // namespace

Status verify(const std::string& folder) { return verify_part(folder, 0, 1); }

Status verify_part(const std::string& folder, int part, int parts) {
  TROUPE_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::open(folder));
  const Manifest& manifest = reader.manifest();
  double all_bytes = 1, before_bytes = 0;  // 1: all middles are less, whatever the manifest says
  for (const FileFacts& file : manifest.shard.files) all_bytes += static_cast<double>(file.bytes);
  for (const FileFacts& file : manifest.shard.files) {
    const double middle_bytes = before_bytes + static_cast<double>(file.bytes) / 2;
    if (static_cast<int>(middle_bytes / all_bytes * parts) == part) TROUPE_RETURN_IF_ERROR(verify_file(folder, file, manifest));
    before_bytes += static_cast<double>(file.bytes);
  }
  const Status tiled = check_tiling(manifest.shard.tensors);
  return tiled.ok() ? tiled : absl::DataLossError(absl::StrCat(folder, ": ", std::string(tiled.message())));
}

StatusOr<std::string> describe(const std::string& folder) {
  TROUPE_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::open(folder));
  const Manifest& manifest = reader.manifest();
  const CheckpointFacts& facts = manifest.facts;
  std::string text;
  const auto line = [&](const std::string& key, const std::string& value) {
    absl::StrAppendFormat(&text, "%-12s %s\n", key, value);
  };
  line("checkpoint", folder);
  line("format", absl::StrCat(kFormatVersion, ", written by troupe ", manifest.troupe_version));
  line("step", absl::StrCat(facts.step.value));
  line("samples", absl::StrCat(facts.samples));
  line("tokens", absl::StrCat(facts.tokens));
  line("seed", absl::StrCat(facts.seed));
  line("model", absl::StrCat("fingerprint ", manifest.model_fingerprint));
  for (const auto& [key, value] : facts.doubles) line(key, absl::StrFormat("%.17g", value));
  for (const auto& [key, value] : facts.integers) line(key, absl::StrCat(value));
  text += "files\n";
  for (const FileFacts& file : manifest.shard.files) {
    absl::StrAppendFormat(&text, "  %-32s %15d bytes  xxh3-128 %s\n", file.name, file.bytes, file.xxh3_128);
  }
  std::map<std::pair<std::string, TensorKind>, std::vector<const TensorPiece*>> tensors;
  for (const TensorPiece& piece : manifest.shard.tensors) tensors[{piece.name, piece.kind}].push_back(&piece);
  absl::StrAppend(&text, "tensors ", tensors.size(), "\n");
  for (const auto& [key, pieces] : tensors) {
    const TensorPiece& first = *pieces.front();
    absl::StrAppendFormat(&text, "  %-56s %-9s %-5s %s", first.name, std::string(name(first.kind)),
                          std::string(name(first.type)), to_string(first.shape));
    if (pieces.size() > 1) absl::StrAppend(&text, " in ", pieces.size(), " slices");
    text += "\n";
  }
  return text;
}

}  // namespace troupe::checkpoint
