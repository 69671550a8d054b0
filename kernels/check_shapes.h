// Refuses a malformed operation when it is enqueued, on the caller's stack, before any byte is touched. Every
// filling calls check_shapes(op) first, so the rules stand once.
//
// Checks: required tensors are there, shapes agree, types are those of the op's header, an output overlaps no
// other tensor except where the header says "may alias" (then it starts at the same byte and has the same
// type), scalars are in range. What a tensor holds (a token's range) is checked by who reads it. Threads:
// any. Errors: a malformed operation is a bug (TROUPE_CHECK); the message names op, field, what it is and
// what it must be (CheckShapes.NamesOpFieldAndBothShapes).
#pragma once

#include "kernels/table.h"

namespace troupe::kernels {

enum class Types {
  kAsDeclared,  // those of the op's header; what the fast fillings take
  kAnyFloat,    // any mix of fp32, bf16 and fp64 wherever the header names a float type: ref
};

#define TROUPE_KERNEL_CHECK(member, Op) void check_shapes(const Op& op, Types types = Types::kAsDeclared);
TROUPE_KERNELS(TROUPE_KERNEL_CHECK)
#undef TROUPE_KERNEL_CHECK

}  // namespace troupe::kernels
