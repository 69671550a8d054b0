// A small world of fp64 (or other) tensors and one stream, for tests of ref against independent truth.
#pragma once

#include <algorithm>
#include <type_traits>
#include <vector>

#include "kernels/ref/element.h"
#include "kernels/ref/ref.h"
#include "runtime/base/rng.h"
#include "runtime/device/host_stream.h"

namespace troupe::kernels::parity {

using device::DType;
using device::Shape;

class Doubles {
 public:
  explicit Doubles(std::uint64_t seed = 1) : seed_(seed) {}

  // Zero at first.
  TensorView zeros(const Shape& shape, DType type = DType::kF64) {
    device::Tensor tensor(pool_, "test", type, shape);
    for (std::int64_t i = 0; i < tensor.view().bytes(); ++i)
      static_cast<std::byte*>(tensor.view().raw())[i] = {};
    tensors_.push_back(tensor);
    return tensor;
  }
  TensorView of(const Shape& shape, const std::vector<double>& numbers, DType type = DType::kF64) {
    const TensorView view = zeros(shape, type);
    for (std::size_t i = 0; i < numbers.size(); ++i)
      ref::store(view, static_cast<std::int64_t>(i), numbers[i]);
    return view;
  }
  TensorView indices(const Shape& shape, const std::vector<std::int32_t>& numbers) {
    const TensorView view = zeros(shape, DType::kI32);
    std::copy(numbers.begin(), numbers.end(), view.data<std::int32_t>());
    return view;
  }
  TensorView random(const Shape& shape, double scale = 1, double mean = 0) {
    const TensorView view = zeros(shape);
    const RandomStream words({.seed = seed_, .sample = static_cast<std::int64_t>(tensors_.size())});
    for (std::int64_t i = 0; i < view.elements(); ++i) {
      ref::store(view, i, mean + scale * words.normal(static_cast<std::uint64_t>(i)));
    }
    return view;
  }
  // Runs ref's op and waits.
  template <class Op>
  void run(void (*Table::*member)(Stream&, const Op&), const std::type_identity_t<Op>& op) {
    (ref::table().*member)(stream_, op);
    stream_.synchronize();
  }

  static std::vector<double> read(const ConstTensorView& view) {
    std::vector<double> numbers;
    for (std::int64_t i = 0; i < view.elements(); ++i) numbers.push_back(ref::load(view, i));
    return numbers;
  }

 private:
  const std::uint64_t seed_;
  device::BufferPool pool_{1 << 20};
  std::vector<device::Tensor> tensors_;
  device::HostStream stream_{"ref", 1};
};

}  // namespace troupe::kernels::parity
