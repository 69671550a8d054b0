#include "models/checkpoint/element_type.h"

#include <array>
#include <cstddef>

#include "runtime/base/check.h"

namespace troupe::checkpoint {
namespace {

struct Row {
  std::string_view name;
  int bits;
};

// by value of ElementType
constexpr std::array<Row, 22> kRows{{
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
    {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
}};

}  // namespace

std::string_view name(ElementType type) { return kRows[static_cast<std::size_t>(type)].name; }

int size_bits(ElementType type) { return kRows[static_cast<std::size_t>(type)].bits; }

std::optional<ElementType> element_type(std::string_view name) {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<ElementType>(i);
  }
  return std::nullopt;
}

ElementType element_type(device::DType type) {
  switch (type) {
    case device::DType::kF32:
      return ElementType::kF32;
    case device::DType::kBF16:
      return ElementType::kBF16;
    case device::DType::kF64:
      return ElementType::kF64;
    case device::DType::kI32:
      return ElementType::kI32;
    case device::DType::kU8:
      return ElementType::kU8;
  }
  TROUPE_CHECK(false) << "device type " << static_cast<int>(type);
  return ElementType::kU8;
}

}  // namespace troupe::checkpoint
