#include "models/checkpoint/reader.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "models/checkpoint/directory.h"
#include "models/checkpoint/hash.h"
#include "models/checkpoint/input_file.h"
#include "runtime/base/check.h"
#include "runtime/device/storage.h"

namespace troupe::checkpoint {
namespace {

constexpr std::int64_t kWindowBytes = std::int64_t{4} << 20;

// Reads ascending ranges of a file: short ones out of a window, so that a column slice is not one pread per
// row.
class Window {
 public:
  Window(const InputFile& file, std::int64_t end_bytes) : file_(file), end_bytes_(end_bytes) {}

  Status read(std::int64_t offset_bytes, std::span<std::byte> into) {
    const auto size = static_cast<std::int64_t>(into.size());
    if (size >= kWindowBytes) return file_.read(offset_bytes, into);
    if (offset_bytes < begin_bytes_ ||
        offset_bytes + size > begin_bytes_ + static_cast<std::int64_t>(window_.size())) {
      window_.resize(static_cast<std::size_t>(std::min(kWindowBytes, end_bytes_ - offset_bytes)));
      begin_bytes_ = offset_bytes;
      TROUPE_RETURN_IF_ERROR(file_.read(begin_bytes_, window_));
    }
    std::memcpy(into.data(), window_.data() + (offset_bytes - begin_bytes_), into.size());
    return ok();
  }

 private:
  const InputFile& file_;
  std::int64_t end_bytes_;
  std::int64_t begin_bytes_ = 0;
  std::vector<std::byte> window_;
};

std::string said(const TensorSpec& tensor) {
  return absl::StrCat("tensor ", tensor.name, " (", std::string(name(tensor.kind)), ")");
}

std::string said(ElementType type, const Shape& shape) {
  return absl::StrCat(std::string(name(type)), " ", to_string(shape));
}

// Copies what the piece shares with the request. One kind of element per call: sizes in whole bytes.
Status load_piece(const std::string& folder, const TensorPiece& piece, const Slice& slice,
                  std::span<std::byte> destination) {
  TROUPE_ASSIGN_OR_RETURN(const InputFile file, InputFile::open(absl::StrCat(folder, "/", piece.file)));
  const std::int64_t element_bytes = size_bits(piece.type) / 8;
  Window window(file, piece.end_bytes);
  Status status;
  for_each_shared_run(piece.slice, slice, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
    if (!status.ok()) return;
    status = window.read(piece.begin_bytes + from * element_bytes,
                         destination.subspan(static_cast<std::size_t>(to * element_bytes),
                                             static_cast<std::size_t>(count * element_bytes)));
  });
  return status;
}

}  // namespace

StatusOr<CheckpointReader> CheckpointReader::open(const std::string& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return absl::NotFoundError(absl::StrCat(folder, ": no such checkpoint folder"));
  }
  const StatusOr<std::string> marker = device::read_file(absl::StrCat(folder, "/", kMarkerName));
  if (absl::IsNotFound(marker.status())) {
    return absl::FailedPreconditionError(absl::StrCat(
        folder, ": no ", kMarkerName, " marker: the save did not finish; take an older checkpoint"));
  }
  TROUPE_RETURN_IF_ERROR(marker.status());
  const std::string path = absl::StrCat(folder, "/", kManifestName);
  TROUPE_ASSIGN_OR_RETURN(const std::string text, device::read_file(path));
  // The version decides before the hash: a newer format may mark completeness in another way.
  StatusOr<Manifest> manifest = parse_manifest(path, text);
  if (absl::IsFailedPrecondition(manifest.status())) return manifest.status();
  const std::string hash = hash_of(text);
  if (*marker != absl::StrCat(hash, "  ", kManifestName, "\n")) {
    return absl::DataLossError(absl::StrCat(path, ": altered or torn: its XXH3-128 is ", hash, ", ",
                                            kMarkerName, " says ", marker->substr(0, 32),
                                            ": take an older checkpoint or copy this one again"));
  }
  TROUPE_RETURN_IF_ERROR(manifest.status());
  for (const FileFacts& file : manifest->shard.files) {
    const std::string shard = absl::StrCat(folder, "/", file.name);
    const auto bytes = std::filesystem::file_size(shard, error);
    if (error) {
      return absl::DataLossError(
          absl::StrCat(shard, ": ", error.message(), "; ", kManifestName, " lists it"));
    }
    if (bytes != static_cast<std::uintmax_t>(file.bytes)) {
      return absl::DataLossError(absl::StrCat(shard, ": torn: ", bytes, " bytes, saved with ", file.bytes,
                                              ": take an older checkpoint or copy this one again"));
    }
  }
  return CheckpointReader(folder, *std::move(manifest));
}

CheckpointReader::CheckpointReader(std::string folder, Manifest manifest)
    : folder_(std::move(folder)), manifest_(std::move(manifest)) {
  for (std::size_t i = 0; i < manifest_.shard.tensors.size(); ++i) {
    const TensorPiece& piece = manifest_.shard.tensors[i];
    pieces_[{piece.name, piece.kind}].push_back(i);
  }
}

Status CheckpointReader::check_tensor(const TensorSpec& expected) const {
  const auto found = pieces_.find({expected.name, expected.kind});
  if (found == pieces_.end()) {
    return absl::NotFoundError(
        absl::StrCat(folder_, ": no ", said(expected), "; it holds ", pieces_.size(), " tensors"));
  }
  for (const std::size_t i : found->second) {
    const TensorPiece& piece = manifest_.shard.tensors[i];
    if (piece.type != expected.type || piece.shape != expected.shape) {
      return absl::FailedPreconditionError(absl::StrCat(folder_, ": ", said(expected), " is ",
                                                        said(piece.type, piece.shape), ", this run needs ",
                                                        said(expected.type, expected.shape)));
    }
  }
  return ok();
}

Status CheckpointReader::check_model(const std::string& model, std::span<const TensorSpec> expected) const {
  const auto refuse = [&](const std::string& why) {
    return absl::FailedPreconditionError(absl::StrCat(
        why, ": a checkpoint of another model; give the model it was saved with, or another folder"));
  };
  std::set<Key> known;
  for (const TensorSpec& tensor : expected) {
    known.emplace(tensor.name, tensor.kind);
    if (const Status fault = check_tensor(tensor); !fault.ok()) return refuse(std::string(fault.message()));
  }
  for (const auto& [key, pieces] : pieces_) {
    if (known.contains(key)) continue;
    const TensorPiece& piece = manifest_.shard.tensors[pieces.front()];
    return refuse(absl::StrCat(folder_, ": tensor ", piece.name, " (", std::string(name(piece.kind)), ") ",
                               said(piece.type, piece.shape), " is not one of this run's model"));
  }
  TROUPE_ASSIGN_OR_RETURN(const std::string fingerprint, model_fingerprint(model));
  if (fingerprint == manifest_.model_fingerprint) return ok();
  return refuse(absl::StrCat(folder_, ": model fingerprint ", manifest_.model_fingerprint, ", this run's ",
                             fingerprint,
                             "; first difference: ", first_difference(manifest_.facts.model, model)));
}

Status CheckpointReader::load(const TensorSpec& tensor, const Slice& slice,
                              std::span<std::byte> destination) const {
  TROUPE_RETURN_IF_ERROR(check_tensor(tensor));
  const auto refuse = [&](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat(folder_, ": ", said(tensor), ": ", why));
  };
  if (!is_inside(slice, tensor.shape)) {
    return refuse(absl::StrCat("slice ", to_string(slice), " lies outside ", to_string(tensor.shape)));
  }
  if (size_bits(tensor.type) % 8 != 0) return refuse("elements of less than a byte cannot be sliced");
  const std::int64_t bytes = size_bytes(tensor.type, slice.sizes).value_or(-1);
  if (bytes != static_cast<std::int64_t>(destination.size())) {
    return refuse(absl::StrCat("slice ", to_string(slice), " takes ", bytes, " bytes, destination has ",
                               destination.size()));
  }

  std::vector<const TensorPiece*> parts;
  std::vector<Slice> shared;
  for (const std::size_t i : pieces_.at({tensor.name, tensor.kind})) {
    const TensorPiece& piece = manifest_.shard.tensors[i];
    if (!overlap(piece.slice, slice)) continue;
    parts.push_back(&piece);
    Slice common = slice;  // relative to the request
    for (std::size_t d = 0; d < slice.sizes.size(); ++d) {
      const std::int64_t begin = std::max(slice.offsets[d], piece.slice.offsets[d]);
      const std::int64_t end =
          std::min(slice.offsets[d] + slice.sizes[d], piece.slice.offsets[d] + piece.slice.sizes[d]);
      common.offsets[d] = begin - slice.offsets[d];
      common.sizes[d] = end - begin;
    }
    shared.push_back(std::move(common));
  }
  if (const auto fault = tiling_fault(slice.sizes, shared)) {
    return absl::DataLossError(
        absl::StrCat(folder_, ": ", said(tensor), " ", to_string(slice), ": ", *fault));
  }
  for (const TensorPiece* part : parts)
    TROUPE_RETURN_IF_ERROR(load_piece(folder_, *part, slice, destination));
  return ok();
}

}  // namespace troupe::checkpoint
