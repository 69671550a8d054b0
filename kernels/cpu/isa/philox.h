// The words that dropout draws, in vectors: Philox4x32-10 on one counter per 64-bit lane, its words in the lower halves; what is in the upper
// halves is never read.
#pragma once

#include "kernels/cpu/isa/dropout_mask.h"
#include "kernels/cpu/isa/simd.h"

namespace troupe::kernels::cpu::TROUPE_ISA {

typedef std::uint64_t U64 __attribute__((vector_size(4 * kLanes)));
inline constexpr int kCounters = kLanes / 2;
inline constexpr int kWordsAtOnce = 2 * 4 * kCounters;

TROUPE_SIMD U64 multiply_low_halves(U64 a, U64 b) {
#if defined(__AVX512F__)
  return (U64)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (U64)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#else
  return (U64)_mm_mul_epu32((__m128i)a, (__m128i)b);
#endif
}
TROUPE_SIMD U64 wide(std::uint64_t x) { return x - U64{}; }

TROUPE_SIMD U64 first_counters() {
  U64 x;
  for (int i = 0; i < kCounters; ++i) x[i] = static_cast<std::uint64_t>(i);
  return x;
}

// The keys of the ten rounds, one per lane.
struct KeySchedule {
  U64 first[10], second[10];
};
TROUPE_SIMD KeySchedule schedule(const DropoutMask& mask) {
  KeySchedule keys;
  for (std::uint32_t round = 0; round < 10; ++round) {
    keys.first[round] = wide(mask.key[0] + round * 0x9E3779B9u);
    keys.second[round] = wide(mask.key[1] + round * 0xBB67AE85u);
  }
  return keys;
}

// Words 4 block .. 4 block + kWordsAtOnce of the stream, in order. Two vectors of counters side by side: a
// round of one waits for its product while the other's is issued.
TROUPE_SIMD void draw(std::uint32_t* words, const DropoutMask& mask, const KeySchedule& keys,
                      std::uint64_t block) {
  constexpr int kPairs = 2;
  U64 c0[kPairs], c1[kPairs], c2[kPairs], c3[kPairs];
  for (int k = 0; k < kPairs; ++k) {
    c0[k] = wide(block + static_cast<std::uint64_t>(k * kCounters)) + first_counters();
    c1[k] = c0[k] >> 32;
    c2[k] = wide(mask.counter_high[0]);
    c3[k] = wide(mask.counter_high[1]);
  }
  const U64 multiplier0 = wide(0xD2511F53u), multiplier1 = wide(0xCD9E8D57u);
  for (int round = 0; round < 10; ++round) {
    for (int k = 0; k < kPairs; ++k) {
      const U64 p0 = multiply_low_halves(c0[k], multiplier0), p1 = multiply_low_halves(c2[k], multiplier1);
      c0[k] = (p1 >> 32) ^ (c1[k] ^ keys.first[round]);
      c2[k] = (p0 >> 32) ^ (c3[k] ^ keys.second[round]);
      c1[k] = p1;
      c3[k] = p0;
    }
  }
  const U64 low = wide(0xffffffffu);
  for (int k = 0; k < kPairs; ++k) {
    const U64 first = (c0[k] & low) | (c1[k] << 32), second = (c2[k] & low) | (c3[k] << 32);
#if defined(__AVX512F__)
    const U64 front = __builtin_shufflevector(first, second, 0, 8, 1, 9, 2, 10, 3, 11);
    const U64 back = __builtin_shufflevector(first, second, 4, 12, 5, 13, 6, 14, 7, 15);
#elif defined(__AVX2__)
    const U64 front = __builtin_shufflevector(first, second, 0, 4, 1, 5);
    const U64 back = __builtin_shufflevector(first, second, 2, 6, 3, 7);
#else
    const U64 front = __builtin_shufflevector(first, second, 0, 2);
    const U64 back = __builtin_shufflevector(first, second, 1, 3);
#endif
    std::uint32_t* at = words + k * 4 * kCounters;
    __builtin_memcpy(at, &front, sizeof front);
    __builtin_memcpy(at + 2 * kCounters, &back, sizeof back);
  }
}

}  // namespace troupe::kernels::cpu::TROUPE_ISA
