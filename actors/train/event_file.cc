#include "actors/train/event_file.h"

#include <array>
#include <bit>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace troupe::actors {
namespace {

// Field numbers of event.proto and summary.proto.
enum EventField { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
constexpr int kSummaryValue = 1, kValueTag = 1, kValueSimple = 2, kSessionStatus = 1, kSessionStart = 1;

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ (rest & 1 ? 0x82f63b78u : 0u);
    table[byte] = rest;
  }
  return table;
}

template <class Int>
std::string little_endian(Int value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof value; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes;
}

// Protocol buffers' wire format.
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7f) | 0x80);
  return bytes + static_cast<char>(value);
}
std::string key(int field, int wire_type) { return varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire_type)); }
std::string number_field(int field, std::int64_t value) { return key(field, 0) + varint(static_cast<std::uint64_t>(value)); }
std::string double_field(int field, double value) { return key(field, 1) + little_endian(std::bit_cast<std::uint64_t>(value)); }
std::string float_field(int field, float value) { return key(field, 5) + little_endian(std::bit_cast<std::uint32_t>(value)); }
std::string bytes_field(int field, std::string_view value) { return absl::StrCat(key(field, 2), varint(value.size()), std::string(value)); }

std::string record(std::string_view event) {
  const std::string length = little_endian(std::uint64_t{event.size()});
  return absl::StrCat(length, little_endian(masked_crc32c(length)), std::string(event), little_endian(masked_crc32c(event)));
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr auto kTable = crc_table();
  std::uint32_t crc = ~0u;
  for (const char byte : bytes) crc = kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff] ^ crc >> 8;
  return ~crc;
}

std::uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8u; }

std::string version_record(double unix_s) { return record(double_field(kWallTime, unix_s) + bytes_field(kFileVersion, "brain.Event:2")); }

std::string restart_record(double unix_s, std::int64_t step) {
  // What has this step or a later one goes.
  return record(double_field(kWallTime, unix_s) + number_field(kStep, step + 1) + bytes_field(kSessionLog, number_field(kSessionStatus, kSessionStart)));
}

std::string scalars_record(double unix_s, std::int64_t step, std::span<const EventScalar> scalars) {
  std::string summary;
  for (const auto& scalar : scalars) {
    summary += bytes_field(kSummaryValue, bytes_field(kValueTag, scalar.tag) + float_field(kValueSimple, static_cast<float>(scalar.value)));
  }
  return record(double_field(kWallTime, unix_s) + number_field(kStep, step) + bytes_field(kSummary, summary));
}

std::string event_file_name(double unix_s, const std::string& host, int pid, std::int64_t serial) {
  return absl::StrFormat("events.out.tfevents.%010d.%s.%d.%d", static_cast<std::int64_t>(unix_s), host, pid, serial);
}

}  // namespace troupe::actors
