#include "kernels/cross_entropy.h"

namespace troupe::kernels {

// The worst filling converts to fp32 as it goes: logits and their gradient [chunk, Vp], x and dx [chunk, C],
// and a few panels of the weight at a time.
std::int64_t cross_entropy_scratch_bytes(std::int64_t chunk_tokens, std::int64_t padded_vocabulary,
                                         std::int64_t channels) {
  constexpr std::int64_t kFloat = 4, kWeightPanels = 8 << 20;
  return chunk_tokens * (2 * padded_vocabulary + 2 * channels) * kFloat + kWeightPanels;
}

}  // namespace troupe::kernels
