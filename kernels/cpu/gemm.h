// One matrix product on a stream's team: c = op(a) op(b) + bias + residual, or c += op(a) op(b), accumulated
// in fp32.
//
// Three ways, chosen by type, size and what the CPU has, the same for every call with the same sizes:
//   few rows    m <= kFewRowsMost: b is read once, straight from memory (generation is bound by reading the
//               weights); not fp32 with W as [K_in, K_out]
//   oneDNN      fp32, but for weight gradients of small matrices; bf16 of even depth where the CPU multiplies
//               bf16 and oneDNN uses it
//   panels      the rest: operands are widened to fp32 while they are packed (gemm_kernels.h)
// Every member of the team computes its own part; oneDNN is told to use one thread. There is never a second
// team.
//
// Threads: inside enqueued work, on the stream's thread. Owns nothing: scratch is the stream's.
// Limits: scratch as gemm_scratch_bytes says, checked at the call.
// Invariants: bitwise deterministic for a thread count (Gemm.GivesTheSameBitsTwice).
#pragma once

#include "kernels/cpu/gemm_kernels.h"
#include "runtime/device/stream.h"

namespace troupe::kernels::cpu {

inline constexpr std::int64_t kFewRowsMost = 8;

struct Gemm {
  std::int64_t m = 0, n = 0, k = 0;
  GemmOperand a, b;         // same type
  GemmOutput c;             // [m, n]; fp32, or the type of a and b
  bool accumulate = false;  // c += op(a) op(b); c is fp32, without bias or residual
};

enum class GemmPath { kFewRows, kOneDnn, kPanels };
GemmPath gemm_path(const Gemm& product);

// Enough for any path. An fp32 output without a residual in its place holds its own sums; others need room
// for them.
std::int64_t gemm_scratch_bytes(const GemmKernels& kernels, std::int64_t m, std::int64_t n, std::int64_t k,
                                int threads, device::DType output = device::DType::kBF16);

// `offset_bytes` of the stream's scratch are the caller's.
void gemm(const GemmKernels& kernels, device::StreamContext& context, const Gemm& product,
          std::int64_t offset_bytes = 0);
// The same by a given path: for tests and benchmarks.
void gemm_by(GemmPath path, const GemmKernels& kernels, device::StreamContext& context, const Gemm& product,
             std::int64_t offset_bytes = 0);

// How a team shares an [m, n] output: rows x columns members, each a part cut at multiples of the grains.
struct GemmGrid {
  int rows = 1, columns = 1;
  struct Part {
    std::int64_t begin, end;
  };
  static GemmGrid of(std::int64_t m, std::int64_t n, std::int64_t row_grain, std::int64_t column_grain,
                     int members);
  static Part part(std::int64_t count, std::int64_t grain, int index, int parts);
};

}  // namespace troupe::kernels::cpu
