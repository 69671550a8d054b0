// Element types of tensors, and bfloat16 as a storage type.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace troupe::device {

// kF64 exists for the reference kernels and finite differences only.
enum class DType : std::uint8_t { kF32, kBF16, kF64, kI32, kU8 };

constexpr std::int64_t size_bytes(DType type) {
  switch (type) {
    case DType::kF32: return 4;
    case DType::kBF16: return 2;
    case DType::kF64: return 8;
    case DType::kI32: return 4;
    case DType::kU8: return 1;
  }
  return 0;
}

constexpr std::string_view name(DType type) {
  switch (type) {
    case DType::kF32: return "fp32";
    case DType::kBF16: return "bf16";
    case DType::kF64: return "fp64";
    case DType::kI32: return "int32";
    case DType::kU8: return "uint8";
  }
  return "?";
}

// The upper half of a float. Conversion rounds to nearest even; NaN stays NaN.
struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  explicit bfloat16(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    if ((word & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<std::uint16_t>((word >> 16) | 0x40u);
    } else {
      bits = static_cast<std::uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
    }
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() { return DType::kF32; }
template <>
constexpr DType dtype_of<bfloat16>() { return DType::kBF16; }
template <>
constexpr DType dtype_of<double>() { return DType::kF64; }
template <>
constexpr DType dtype_of<std::int32_t>() { return DType::kI32; }
template <>
constexpr DType dtype_of<std::uint8_t>() { return DType::kU8; }

}  // namespace troupe::device
