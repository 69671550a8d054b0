// What each file of this folder defines: the body of one op, called on the stream with checked shapes.
#pragma once

#include "kernels/table.h"

namespace troupe::kernels::ref {

#define TROUPE_REF_RUN(member, Op) void run(const Op& op);
TROUPE_KERNELS(TROUPE_REF_RUN)
#undef TROUPE_REF_RUN

}  // namespace troupe::kernels::ref
