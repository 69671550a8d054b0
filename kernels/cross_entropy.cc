#include "kernels/cross_entropy.h"

#include <algorithm>

namespace troupe::kernels {

// The worst filling is cpu: logits and, where tokens are masked, gathered x and dx of a chunk, in whole steps of 32 tokens; and
// what its products need: packed operands of 8 MiB for the team and 160 KiB for each thread, and fp32 sums of dx, of a chunk or of
// 144 rows for each thread (CrossEntropyScratch.CoversTheProducts).
std::int64_t cross_entropy_scratch_bytes(std::int64_t chunk_tokens, std::int64_t padded_vocabulary, std::int64_t channels,
                                         int threads) {
  constexpr std::int64_t kFloat = 4, kPacked = 8 << 20, kPackedPerThread = 160 << 10, kAlignment = 64 << 10;
  const std::int64_t rows = (chunk_tokens + 31) / 32 * 32, columns = (channels + 31) / 32 * 32;
  const std::int64_t held = rows * (padded_vocabulary + 2 * channels + 2) * kFloat;
  const std::int64_t sums = std::max(std::min<std::int64_t>(rows, 2048), std::int64_t{144} * threads) * columns * kFloat;
  const std::int64_t few_rows = 8 * std::max(padded_vocabulary, channels) * kFloat;
  return held + std::max(kPacked + kPackedPerThread * threads + sums, few_rows) + kAlignment;
}

}  // namespace troupe::kernels
