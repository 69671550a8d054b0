// The kernels for x86-64 processors: one table per instruction set, and the choice of it, made once when the
// process starts to compute. One binary runs anywhere.
//
// The widest set the processor has is taken; TROUPE_CPU_ISA=baseline|avx2|avx512 lowers the choice. Losses
// are bitwise the same for one instruction set only (law 9), so a mixed cluster must be lowered to what all
// have.
//
// Threads: any. Errors: choose_isa says kInvalidArgument for a name that is none, kFailedPrecondition for a
// set this processor lacks; table() with such an environment is a failed check, so main asks
// isa_from_environment() first. Invariants: wide instructions stay in their table
// (CpuIsa.KeepsWideInstructionsToItself); every table is full (CpuTable.*).
#pragma once

#include "kernels/cpu/isa.h"
#include "kernels/table.h"
#include "runtime/base/status.h"

namespace troupe::kernels::cpu {

// The widest instruction set of this processor.
Isa widest_isa();

// The set to use where `wanted` is the value of TROUPE_CPU_ISA (null or empty: the widest), on a processor
// with `widest`.
StatusOr<Isa> choose_isa(const char* wanted, Isa widest);
StatusOr<Isa> isa_from_environment();

// The table of one instruction set, whether the processor has it or not; its name is "cpu/" + name(isa).
const Table& table_for(Isa isa);

// The table of isa_from_environment(), asked once.
const Table& table();

}  // namespace troupe::kernels::cpu
