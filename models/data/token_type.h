// How a token is stored in a file, and widening stored tokens to the int32 that models take.
//
// Threads: any. Limits: little-endian hosts, as every file format here is little-endian.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace troupe::data {

static_assert(std::endian::native == std::endian::little, "corpus files are read as they lie in memory");

enum class TokenType { kU8, kI8, kI16, kU16, kI32, kU32, kI64 };

std::int64_t size_bytes(TokenType type);
std::string_view name(TokenType type);

// A stored token outside [0, limit).
struct BadToken {
  std::size_t index;
  std::int64_t value;
};

// Widens out.size() tokens at `stored` (any alignment). Stops at the first one outside [0, limit), says so in
// `bad` and returns false; out is then partly written.
bool widen_tokens(TokenType type, const std::byte* stored, std::int32_t limit, std::span<std::int32_t> out,
                  BadToken& bad);

// A field of a file header, at any alignment. The caller has checked that it lies within.
template <class T>
T load_field(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

}  // namespace troupe::data
