// Element types as they are named in safetensors files: all that the format knows, so that any file can be
// listed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/device/dtype.h"

namespace troupe::checkpoint {

// In the format's own order: a writer puts later types first, so that wider ones are aligned.
enum class ElementType : std::uint8_t {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};

std::string_view name(ElementType type);                         // "BF16"
std::optional<ElementType> element_type(std::string_view name);  // nullopt: no such type
int size_bits(ElementType type);                                 // 4 and 6 exist
ElementType element_type(device::DType type);

}  // namespace troupe::checkpoint
