// Length-prefixed binary frames: what the store and the launcher's agents speak. Formats of the frames: STORE.md.
//
//   u32 length of the rest | u8 type | fields. Integers are little-endian; a text is u32 length, then its bytes.
//
// Threads: one at a time. Errors: a reader of torn or over-long fields says so in ended_well(), and gives zeros and empty texts.
// Limits: kFrameBytesMost for a frame's rest, or what the splitter was told; more is kInvalidArgument, and the connection's end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace troupe::comm {

inline constexpr std::size_t kFrameBytesMost = 1 << 20;

class FrameWriter {
 public:
  explicit FrameWriter(std::uint8_t type) : bytes_(4, '\0') { u8(type); }
  FrameWriter& u8(std::uint8_t value) { return integer(value, 1); }
  FrameWriter& u16(std::uint16_t value) { return integer(value, 2); }
  FrameWriter& u32(std::uint32_t value) { return integer(value, 4); }
  FrameWriter& i32(std::int32_t value) { return integer(static_cast<std::uint32_t>(value), 4); }
  FrameWriter& i64(std::int64_t value) { return integer(static_cast<std::uint64_t>(value), 8); }
  FrameWriter& raw(std::string_view bytes);
  FrameWriter& text(std::string_view text) { return u32(static_cast<std::uint32_t>(text.size())).raw(text); }
  std::string finish() &&;

 private:
  FrameWriter& integer(std::uint64_t value, int bytes);
  std::string bytes_;
};

class FrameReader {
 public:
  // Of a frame without its length; it must outlive the reader.
  explicit FrameReader(std::string_view frame) : rest_(frame) { type_ = u8(); }
  std::uint8_t type() const { return type_; }
  std::uint8_t u8() { return static_cast<std::uint8_t>(integer(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(integer(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(integer(4)); }
  std::int32_t i32() { return static_cast<std::int32_t>(integer(4)); }
  std::int64_t i64() { return static_cast<std::int64_t>(integer(8)); }
  std::string_view raw(std::size_t bytes);
  std::string_view text() { return raw(u32()); }
  bool ended_well() const { return whole_ && rest_.empty(); }

 private:
  std::uint64_t integer(std::size_t bytes);
  std::string_view rest_;
  std::uint8_t type_ = 0;
  bool whole_ = true;
};

// Cuts a stream of bytes into frames.
class FrameSplitter {
 public:
  explicit FrameSplitter(std::size_t most = kFrameBytesMost) : most_(most) {}
  void set_most(std::size_t bytes) { most_ = bytes; }
  void append(std::string_view bytes) { bytes_.append(bytes); }
  // The next whole frame without its length, none yet, or an error that lasts.
  StatusOr<std::optional<std::string>> next();

 private:
  std::size_t most_, taken_ = 0;
  std::string bytes_;
};

}  // namespace troupe::comm
