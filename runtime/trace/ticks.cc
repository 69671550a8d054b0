#include "runtime/trace/ticks.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace troupe::trace {
namespace {

const SteadyClock kSteady;

double measure_ns_per_tick() {
#if defined(__x86_64__)
  // 2 ms: the clock's own reading error, some 50 ns at each end, is then 5e-5 of it.
  const std::int64_t ns_begin = kSteady.now_ns();
  const std::uint64_t ticks_begin = __builtin_ia32_rdtsc();
  std::int64_t ns_end = ns_begin;
  while (ns_end - ns_begin < 2'000'000) ns_end = kSteady.now_ns();
  return static_cast<double>(ns_end - ns_begin) / static_cast<double>(__builtin_ia32_rdtsc() - ticks_begin);
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

Ticks::Ticks(const Clock* clock) : clock_(clock) {
  if (clock_ != nullptr) return;
  static const bool constant = has_constant_counter();
  if (constant) {
    ns_per_tick_ = counter_ns_per_tick();
  } else {
    clock_ = &kSteady;
  }
}

}  // namespace troupe::trace
