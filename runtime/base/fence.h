// A fence between two threads of which one goes through all the time and the other seldom: the first pays nothing, the second some microseconds.
//
// Of two threads that each write a word of their own and then read the other's, with light_fence() in between in one and heavy_fence() in the other, at least
// one sees what the other has written. membarrier(2), private and expedited; where the kernel does not have it both are full fences.
// Threads: any, of one process. Errors: none.
#pragma once

#include <atomic>

namespace troupe {

namespace detail {
extern const bool heavy_fence_is_enough;  // false until it is known
}

inline void light_fence() {
  if (detail::heavy_fence_is_enough) [[likely]] {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
}
void heavy_fence();

}  // namespace troupe
