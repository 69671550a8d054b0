// One element of a tensor as a double, whatever its type; store rounds once, to nearest even.
#pragma once

#include <bit>
#include <cmath>

#include "runtime/device/tensor.h"

namespace troupe::kernels::ref {

using device::ConstTensorView;
using device::DType;
using device::TensorView;

inline std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

inline double load(const ConstTensorView& tensor, std::int64_t i) {
  switch (tensor.type()) {
    case DType::kF32:
      return static_cast<const float*>(tensor.raw())[i];
    case DType::kBF16:
      return static_cast<float>(static_cast<const device::bfloat16*>(tensor.raw())[i]);
    case DType::kF64:
      return static_cast<const double*>(tensor.raw())[i];
    case DType::kI32:
      return static_cast<const std::int32_t*>(tensor.raw())[i];
    case DType::kU8:
      return static_cast<const std::uint8_t*>(tensor.raw())[i];
  }
  return 0;
}

inline std::int64_t load_index(const ConstTensorView& tensor, std::int64_t i) {
  return tensor.data<std::int32_t>()[i];
}

// Through a float rounded to odd, so that the two conversions together round once (Boldo & Melquiond 2008).
inline device::bfloat16 round_to_bf16(double value) {
  auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) != value) {
    auto bits = std::bit_cast<std::uint32_t>(nearest);
    if (std::fabs(static_cast<double>(nearest)) > std::fabs(value)) --bits;
    nearest = std::bit_cast<float>(bits | 1u);
  }
  return device::bfloat16(nearest);
}

inline double round_to(DType type, double value) {
  if (type == DType::kF32) return static_cast<float>(value);
  if (type == DType::kBF16) return static_cast<float>(round_to_bf16(value));
  return value;
}

inline void store(const TensorView& tensor, std::int64_t i, double value) {
  switch (tensor.type()) {
    case DType::kF32:
      static_cast<float*>(tensor.raw())[i] = static_cast<float>(value);
      return;
    case DType::kBF16:
      static_cast<device::bfloat16*>(tensor.raw())[i] = round_to_bf16(value);
      return;
    case DType::kF64:
      static_cast<double*>(tensor.raw())[i] = value;
      return;
    default:
      TROUPE_CHECK(false) << "a result is " << device::name(tensor.type()) << ", must be a float type";
  }
}

inline void accumulate(const TensorView& tensor, std::int64_t i, double value) {
  store(tensor, i, load(tensor, i) + value);
}

}  // namespace troupe::kernels::ref
