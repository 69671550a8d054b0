#include <cstring>

#include "absl/strings/str_cat.h"
#include "models/checkpoint/json.h"
#include "models/checkpoint/safetensors.h"

namespace troupe::checkpoint {
namespace {

constexpr std::uint64_t kHeaderBytesMax = 100'000'000;

}  // namespace

SafetensorsReader::SafetensorsReader(InputFile file, SafetensorsHeader header, std::int64_t data_begin_bytes)
    : file_(std::move(file)), header_(std::move(header)), data_begin_bytes_(data_begin_bytes) {
  for (std::size_t i = 0; i < header_.tensors.size(); ++i) by_name_[header_.tensors[i].name] = i;
}

StatusOr<SafetensorsReader> SafetensorsReader::open(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(InputFile file, InputFile::open(path));
  if (file.size_bytes() < 8) {
    return absl::DataLossError(absl::StrCat(path, ": HeaderTooSmall: ", file.size_bytes(),
                                            " bytes; a safetensors file has at least 8"));
  }
  std::uint64_t length = 0;
  TROUPE_RETURN_IF_ERROR(file.read(0, std::as_writable_bytes(std::span(&length, 1))));
  if (length > kHeaderBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": HeaderTooLarge: ", length,
                                                   " bytes; the format allows ", kHeaderBytesMax,
                                                   ": this is no safetensors file"));
  }
  const auto header_bytes = static_cast<std::int64_t>(length);
  if (header_bytes > file.size_bytes() - 8) {
    return absl::DataLossError(absl::StrCat(path, ": InvalidHeaderLength: a header of ", header_bytes,
                                            " bytes in a file of ", file.size_bytes(), ": it is cut short"));
  }
  std::string text(length, '\0');
  TROUPE_RETURN_IF_ERROR(file.read(8, std::as_writable_bytes(std::span(text.data(), text.size()))));
  TROUPE_ASSIGN_OR_RETURN(SafetensorsHeader header,
                          parse_safetensors_header(path, text, file.size_bytes() - 8 - header_bytes));
  return SafetensorsReader(std::move(file), std::move(header), 8 + header_bytes);
}

const TensorEntry* SafetensorsReader::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &header_.tensors[found->second];
}

Status SafetensorsReader::read(const TensorEntry& tensor, std::int64_t offset_bytes,
                               std::span<std::byte> into) const {
  const std::int64_t size = tensor.end_bytes - tensor.begin_bytes;
  if (offset_bytes < 0 || offset_bytes > size ||
      static_cast<std::int64_t>(into.size()) > size - offset_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(path(), ": tensor ", in_quotes(tensor.name), ": bytes ",
                                                   offset_bytes, " + ", into.size(), " of ", size,
                                                   " asked for"));
  }
  return file_.read(data_begin_bytes_ + tensor.begin_bytes + offset_bytes, into);
}

}  // namespace troupe::checkpoint
