// The specification of every kernel: plain loops in double, in one thread, each result rounded once to its
// tensor's type.
//
// Any mix of fp32, bf16 and fp64 is taken wherever an op names a float type, so a whole model can run in fp64
// and be compared with central differences. Slow on purpose; may allocate rows of doubles while it runs. Uses
// no scratch and no team. Truth for it: hand-computed values, central differences, a naive softmax
// (tests/parity/kernels/ref_*_test.cc).
#pragma once

#include "kernels/table.h"

namespace troupe::kernels::ref {

const Table& table();

}  // namespace troupe::kernels::ref
