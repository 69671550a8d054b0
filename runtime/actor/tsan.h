// Tells the thread sanitizer of the hand-over that CAF's uninstrumented code does. Nothing in other builds.
#pragma once

#include "runtime/base/sanitizer.h"

#if defined(TROUPE_TSAN)
extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif

namespace troupe::actor::detail {

#if defined(TROUPE_TSAN)
inline void hand_over(const volatile void* address) { __tsan_release(const_cast<void*>(address)); }
inline void take_over(const volatile void* address) { __tsan_acquire(const_cast<void*>(address)); }
#else
inline void hand_over(const volatile void*) {}
inline void take_over(const volatile void*) {}
#endif

}  // namespace troupe::actor::detail
