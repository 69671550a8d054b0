// What block math runs in: one filling of kernels, one stream, and the micro-batch at hand. Models know no actor and no network.
#pragma once

#include "kernels/table.h"
#include "runtime/base/ids.h"
#include "runtime/device/allocator.h"
#include "runtime/task/task.h"

namespace troupe::models {

using device::ConstTensorView;
using device::DType;
using device::Shape;
using device::Tensor;
using device::TensorView;

// How a micro-batch is shaped and stored. N = B T rows.
struct Geometry {
  std::int64_t batch = 0;        // B, sequences
  std::int64_t seq_len = 0;      // T
  DType compute = DType::kF32;   // weights and activations: bf16 | fp32 (fp64: reference kernels only)

  std::int64_t rows() const { return batch * seq_len; }
  // Statistics, losses, gradient sums.
  DType sums() const { return compute == DType::kF64 ? DType::kF64 : DType::kF32; }
};

// The integers of one micro-batch, each [N] int32 but sample_ids [B, 2] (kernels/activation.h).
struct MicroBatchInputs {
  Tensor tokens, targets, positions, document_start, sample_ids;

  static MicroBatchInputs take(device::Allocator& from, const std::string& term, const Geometry& geometry) {
    const Shape rows{geometry.rows()};
    return {from.take(term, DType::kI32, rows), from.take(term, DType::kI32, rows), from.take(term, DType::kI32, rows),
            from.take(term, DType::kI32, rows), from.take(term, DType::kI32, {geometry.batch, 2})};
  }
};

struct Context {
  const kernels::Table& kernels;
  device::Stream& stream;
  Geometry geometry;
  const MicroBatchInputs* inputs = nullptr;
  std::uint64_t seed = 0;
  StepId step;
  bool training = true;          // dropout is on

  RandomKey dropout_key(BlockIndex block, std::int32_t use) const {
    return {.seed = seed, .step = step.value, .sample = 0, .layer = block.value, .use = use};
  }
};

}  // namespace troupe::models
