#include "comm/join/frame.h"

#include "absl/strings/str_cat.h"

namespace troupe::comm {
namespace {

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

}  // namespace

FrameWriter& FrameWriter::integer(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) bytes_.push_back(static_cast<char>(value >> 8 * i));
  return *this;
}

FrameWriter& FrameWriter::raw(std::string_view bytes) {
  bytes_.append(bytes);
  return *this;
}

std::string FrameWriter::finish() && {
  const std::size_t length = bytes_.size() - 4;
  for (std::size_t i = 0; i < 4; ++i) bytes_[i] = static_cast<char>(length >> 8 * i);
  return std::move(bytes_);
}

std::string_view FrameReader::raw(std::size_t bytes) {
  if (bytes > rest_.size()) {
    whole_ = false;
    rest_ = {};
    return {};
  }
  const auto taken = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return taken;
}

std::uint64_t FrameReader::integer(std::size_t bytes) { return little_endian(raw(bytes)); }

StatusOr<std::optional<std::string>> FrameSplitter::next() {
  const std::string_view rest = std::string_view(bytes_).substr(taken_);
  if (rest.size() < 4) return std::nullopt;
  const std::size_t length = static_cast<std::size_t>(little_endian(rest.substr(0, 4)));
  if (length == 0 || length > most_)
    return absl::InvalidArgumentError(absl::StrCat("a frame of ", length, " bytes: allowed are 1 .. ", most_));
  if (rest.size() < 4 + length) return std::nullopt;
  std::string frame(rest.substr(4, length));
  taken_ += 4 + length;
  if (taken_ == bytes_.size() || taken_ > kFrameBytesMost) {
    bytes_.erase(0, taken_);
    taken_ = 0;
  }
  return frame;
}

}  // namespace troupe::comm
