#include "actors/train/peak.h"

#include <algorithm>

#include "runtime/base/clock.h"
#include "runtime/device/host_stream.h"

namespace troupe::actors {

double measure_matmul_peak(const kernels::Table& kernels, device::DType type, int threads) {
  constexpr std::int64_t kRows = 1024, kSize = 768;
  // The first ones warm the caches and the clock of the cores; the best of what a third of a second allows counts.
  constexpr std::int64_t kForNs = 300'000'000;
  constexpr int kLeast = 8;  // also where others have the machine, and one of them alone takes so long
  const std::int64_t scratch = kernels.matmul_scratch_bytes(kRows, kSize, kSize, type, threads);
  const std::int64_t bytes = (2 * kRows * kSize + kSize * kSize) * device::size_bytes(type) + scratch + 4 * 64;
  device::BufferPool pool(bytes);
  const device::Tensor x(pool, "peak", type, {kRows, kSize}), y(pool, "peak", type, {kRows, kSize}),
      weight(pool, "peak", type, {kSize, kSize});
  device::HostStream stream("peak", threads, pool.take("peak", scratch));
  const SteadyClock clock;
  double best_s = 1e9;
  const auto start = clock.now_ns();
  int done = 0;
  for (auto begin = start; begin - start < kForNs || done < kLeast; begin = clock.now_ns(), ++done) {
    kernels.matmul(stream, {.y = y, .x = x, .weight = weight, .bias = {}, .residual = {}});
    stream.synchronize();
    best_s = std::min(best_s, seconds(clock.now_ns() - begin));
  }
  return 2.0 * kRows * kSize * kSize / best_s;
}

}  // namespace troupe::actors
