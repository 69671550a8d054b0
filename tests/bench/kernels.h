// What the kernels of kernels/cpu reach of what this machine can do: each row is the time a bound on paper
// allows over the time taken.
//
// The bound of an op that is bound by memory is the bytes it must read and write once, over the bandwidth of
// a copy by the same number of threads (bytes read + bytes written, glibc's memcpy, which does not read what
// it overwrites). Of a matrix product: its multiplications and additions over those of a loop of independent
// fused multiply-adds in registers. Both are measured first, in the same run, and are the first two rows. An op
// in place may pass 1: a store outside the caches reads its line first, which the copy avoids and the op needs
// anyway. Bars are what a quiet two-core Zen 3 should reach; on a busy machine a row says little.
// Threads: one; it starts a stream of its own. Limits: about 1 GiB of memory, about 20 seconds.
#pragma once

#include <vector>

#include "tests/bench/row.h"

namespace troupe::bench {

std::vector<BenchRow> kernel_rows(int threads);

}  // namespace troupe::bench
