#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/checkpoint/json.h"
#include "models/checkpoint/safetensors.h"
#include "runtime/base/check.h"

namespace troupe::checkpoint {

static_assert(std::endian::native == std::endian::little,
              "the formats are little-endian and copied as they are");

namespace {

// Gives offsets in order. What cannot be written is an error that names the tensor.
Status place(const std::string& path, std::vector<TensorEntry>& tensors) {
  std::ranges::sort(tensors, [](const TensorEntry& a, const TensorEntry& b) {
    return std::tie(b.type, a.name) < std::tie(a.type, b.name);
  });
  std::map<std::string_view, int> seen;
  std::int64_t end = 0;
  for (TensorEntry& tensor : tensors) {
    const auto refuse = [&](const std::string& why) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": tensor ", in_quotes(tensor.name), ": ", why));
    };
    if (!is_utf8(tensor.name)) return refuse("the name is not UTF-8");
    if (tensor.name == "__metadata__") return refuse("the format reserves this name");
    if (++seen[tensor.name] > 1) return refuse("declared twice");
    const std::optional<std::int64_t> bytes = size_bytes(tensor.type, tensor.shape);
    tensor.begin_bytes = end;
    if (!bytes || __builtin_add_overflow(end, *bytes, &end)) {
      return refuse(absl::StrCat(std::string(name(tensor.type)), " ", to_string(tensor.shape),
                                 " has no size in bytes"));
    }
    tensor.end_bytes = end;
  }
  return ok();
}

std::string header_text(const std::vector<TensorEntry>& tensors, const FileMetadata& metadata) {
  std::string text = "{";
  const char* comma = "";
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      absl::StrAppend(&text, comma, in_quotes(key), ":", in_quotes(value));
      comma = ",";
    }
    text += "}";
  }
  for (const TensorEntry& tensor : tensors) {
    absl::StrAppend(&text, comma, in_quotes(tensor.name), ":{\"dtype\":\"", std::string(name(tensor.type)),
                    "\",\"shape\":[", absl::StrJoin(tensor.shape, ","), "],\"data_offsets\":[",
                    tensor.begin_bytes, ",", tensor.end_bytes, "]}");
    comma = ",";
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

StatusOr<SafetensorsWriter> SafetensorsWriter::create(const Disk& disk, const std::string& path,
                                                      std::vector<TensorEntry> tensors,
                                                      const FileMetadata& metadata) {
  TROUPE_RETURN_IF_ERROR(place(path, tensors));
  for (const auto& [key, value] : metadata) {
    if (!is_utf8(key) || !is_utf8(value)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": metadata ", in_quotes(key), " is not UTF-8"));
    }
  }
  const std::string text = header_text(tensors, metadata);
  if (text.size() > 100'000'000) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": HeaderTooLarge: ", tensors.size(), " tensors take a header of ", text.size(),
                     " bytes; the format allows 100000000: write more, smaller files"));
  }
  std::string start(8, '\0');
  const std::uint64_t length = text.size();
  std::memcpy(start.data(), &length, 8);
  TROUPE_ASSIGN_OR_RETURN(OutputFile file, disk.create(path));
  TROUPE_RETURN_IF_ERROR(file.write(start + text));
  const std::int64_t data_begin_bytes = file.bytes();
  return SafetensorsWriter(std::move(file), std::move(tensors), data_begin_bytes);
}

Status SafetensorsWriter::append(std::span<const std::byte> bytes) {
  const std::int64_t declared = tensors_.empty() ? 0 : tensors_.back().end_bytes;
  TROUPE_CHECK(file_.bytes() - data_begin_bytes_ + static_cast<std::int64_t>(bytes.size()) <= declared)
      << bytes.size() << " bytes at " << file_.bytes() - data_begin_bytes_ << " of " << declared;
  return file_.write(bytes);
}

StatusOr<WrittenFile> SafetensorsWriter::close_durably() {
  const std::int64_t declared = tensors_.empty() ? 0 : tensors_.back().end_bytes;
  TROUPE_CHECK(file_.bytes() - data_begin_bytes_ == declared)
      << file_.bytes() - data_begin_bytes_ << " of " << declared << " bytes came";
  return file_.close_durably();
}

}  // namespace troupe::checkpoint
