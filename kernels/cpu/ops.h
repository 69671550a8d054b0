// Every op of the table as a template over the instruction set, and what their bodies share: choosing the
// element type and cutting work into shares worth a thread.
//
// The bodies are compiled for any x86-64; they check shapes, split, and call the loops in isa/. Threads: as
// kernels/table.h. Scratch: only matmul, attention and cross_entropy_head use the stream's; the ops of
// norm.cc, activation.cc, elementwise.cc and optimizer.cc need none. Bits: of those ops, independent of the
// team's size; they differ between instruction sets.
#pragma once

#include <cmath>

#include "kernels/check_shapes.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/isa/dropout_mask.h"
#include "kernels/table.h"

namespace troupe::kernels::cpu {

#define TROUPE_CPU_DECLARE(member, Op) \
  template <Isa>                       \
  void member(Stream& stream, const Op& op);
TROUPE_KERNELS(TROUPE_CPU_DECLARE)
#undef TROUPE_CPU_DECLARE

// Instantiates an op for every instruction set; at the end of the source that defines it.
#define TROUPE_CPU_OP(member, Op)                           \
  template void member<Isa::kBaseline>(Stream&, const Op&); \
  template void member<Isa::kAvx2>(Stream&, const Op&);     \
  template void member<Isa::kAvx512>(Stream&, const Op&)

// Calls body.operator()<float>() or <bfloat16>().
template <class Body>
void by_type(device::DType type, const Body& body) {
  if (type == device::DType::kF32) {
    body.template operator()<float>();
  } else {
    TROUPE_CHECK(type == device::DType::kBF16)
        << "a kernel for bf16 and fp32 was given " << device::name(type);
    body.template operator()<device::bfloat16>();
  }
}

// The data of an optional tensor, null where it is left out.
template <class T, class View>
auto optional(const View& view) {
  return view ? view.template data<T>() : nullptr;
}

// Of the sample numbered `row` in `sample_ids`.
inline DropoutMask dropout_mask(RandomKey key, const std::int32_t* sample_ids, std::int64_t row, float probability) {
  key.sample = sample_id(sample_ids, row);
  const RandomStream random(key);
  const auto p = static_cast<double>(probability);
  return {{random.key()[0], random.key()[1]}, {random.counter_high()[0], random.counter_high()[1]},
          static_cast<std::uint32_t>(std::ceil(p * 0x1p32)), static_cast<float>(1.0 / (1.0 - p))};
}

// Work is shared out in pieces of at least this many elements (16 KiB of bf16): less is not worth waking a
// thread.
inline constexpr std::int64_t kPieceElements = 8192;
constexpr std::int64_t rows_per_piece(std::int64_t row_elements) {
  return row_elements >= kPieceElements ? 1 : kPieceElements / (row_elements > 0 ? row_elements : 1);
}

// Threads share out the channels of a weight gradient by whole cache lines of fp32.
inline constexpr std::int64_t kColumnGrain = 16;

}  // namespace troupe::kernels::cpu
