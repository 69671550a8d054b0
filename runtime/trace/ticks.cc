#include "runtime/trace/ticks.h"

#include <limits>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace troupe::trace {
namespace {

const SteadyClock kSteady;

#if defined(__x86_64__)
struct Pair {
  std::int64_t ns = 0;
  std::uint64_t ticks = 0;
};

// Both clocks at one instant. A thread may lose the processor between two reads, so the closest of some tries
// counts.
Pair read_both() {
  Pair best;
  std::int64_t best_gap_ns = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < 16; ++i) {
    const std::int64_t before = kSteady.now_ns();
    const std::uint64_t ticks = __builtin_ia32_rdtsc();
    const std::int64_t gap_ns = kSteady.now_ns() - before;
    if (gap_ns < best_gap_ns) {
      best_gap_ns = gap_ns;
      best = {before + gap_ns / 2, ticks};
    }
  }
  return best;
}
#endif

double measure_ns_per_tick() {
#if defined(__x86_64__)
  // 2 ms: the error of some 50 ns at each end is then 5e-5 of it.
  const Pair begin = read_both();
  while (kSteady.now_ns() - begin.ns < 2'000'000) {
  }
  const Pair end = read_both();
  return static_cast<double>(end.ns - begin.ns) / static_cast<double>(end.ticks - begin.ticks);
#else
  return 1.0;
#endif
}

}  // namespace

bool has_constant_counter() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007u, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;  // "invariant TSC"
#else
  return false;
#endif
}

double counter_ns_per_tick() {
  static const double ns_per_tick = measure_ns_per_tick();
  return ns_per_tick;
}

void Ticks::set_ns_per_tick(double ns) {
  ns_per_tick_ = ns;
  per_tick_ = static_cast<std::uint64_t>(ns / static_cast<double>(bound_ns(0)) * 0x1p32) + 1;
}

Ticks::Ticks(const Clock* clock) : clock_(clock) {
  set_ns_per_tick(1.0);
  if (clock_ != nullptr) return;
  static const bool constant = has_constant_counter();
  if (constant) {
    set_ns_per_tick(counter_ns_per_tick());
  } else {
    clock_ = &kSteady;
  }
}

}  // namespace troupe::trace
