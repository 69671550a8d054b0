// Which elements of one sample dropout keeps: those whose word of the sample's Philox stream (RandomStream::key, counter_high) is at least
// `threshold`. They are scaled. Made by kernels/cpu/ops.h.
#pragma once

#include <cstdint>

namespace troupe::kernels::cpu {

struct DropoutMask {
  std::uint32_t key[2] = {};
  std::uint32_t counter_high[2] = {};
  std::uint32_t threshold = 0;  // 0 keeps everything
  float scale = 1.0f;
};

}  // namespace troupe::kernels::cpu
