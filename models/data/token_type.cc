#include "models/data/token_type.h"

#include "runtime/base/check.h"

namespace troupe::data {
namespace {

template <class Stored>
bool widen(const std::byte* stored, std::int32_t limit, std::span<std::int32_t> out, BadToken& bad) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Stored value;
    std::memcpy(&value, stored + i * sizeof value, sizeof value);
    const auto wide = static_cast<std::int64_t>(value);
    if (wide < 0 || wide >= limit) {
      bad = {i, wide};
      return false;
    }
    out[i] = static_cast<std::int32_t>(wide);
  }
  return true;
}

}  // namespace

std::int64_t size_bytes(TokenType type) {
  switch (type) {
    case TokenType::kU8:
    case TokenType::kI8:
      return 1;
    case TokenType::kI16:
    case TokenType::kU16:
      return 2;
    case TokenType::kI32:
    case TokenType::kU32:
      return 4;
    case TokenType::kI64:
      return 8;
  }
  TROUPE_CHECK(false) << "token type " << static_cast<int>(type);
  return 0;
}

std::string_view name(TokenType type) {
  switch (type) {
    case TokenType::kU8:
      return "uint8";
    case TokenType::kI8:
      return "int8";
    case TokenType::kI16:
      return "int16";
    case TokenType::kU16:
      return "uint16";
    case TokenType::kI32:
      return "int32";
    case TokenType::kU32:
      return "uint32";
    case TokenType::kI64:
      return "int64";
  }
  TROUPE_CHECK(false) << "token type " << static_cast<int>(type);
  return {};
}

bool widen_tokens(TokenType type, const std::byte* stored, std::int32_t limit, std::span<std::int32_t> out,
                  BadToken& bad) {
  switch (type) {
    case TokenType::kU8:
      return widen<std::uint8_t>(stored, limit, out, bad);
    case TokenType::kI8:
      return widen<std::int8_t>(stored, limit, out, bad);
    case TokenType::kI16:
      return widen<std::int16_t>(stored, limit, out, bad);
    case TokenType::kU16:
      return widen<std::uint16_t>(stored, limit, out, bad);
    case TokenType::kI32:
      return widen<std::int32_t>(stored, limit, out, bad);
    case TokenType::kU32:
      return widen<std::uint32_t>(stored, limit, out, bad);
    case TokenType::kI64:
      return widen<std::int64_t>(stored, limit, out, bad);
  }
  TROUPE_CHECK(false) << "token type " << static_cast<int>(type);
  return false;
}

}  // namespace troupe::data
