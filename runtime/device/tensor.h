// Tensors: contiguous, row-major, at most four dims. A TensorView is what a kernel gets: it lives on the stack of one
// call or inside one enqueued operation, and owns nothing. A Tensor is a view together with a counted share of its buffer.
//
// Errors: an access with the wrong type or a reshape to another size is a bug (TROUPE_CHECK).
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "runtime/base/check.h"
#include "runtime/device/dtype.h"
#include "runtime/device/pool.h"

namespace troupe::device {

// Up to four sizes; a shape without dims is a scalar.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes) {
    TROUPE_CHECK(sizes.size() <= 4) << "a tensor has at most four dims";
    for (auto size : sizes) sizes_[static_cast<std::size_t>(dims_++)] = size;
  }

  int dims() const { return dims_; }
  // Negative dims count from the end: shape[-1] is the last size.
  std::int64_t operator[](int dim) const {
    const int at = dim < 0 ? dims_ + dim : dim;
    TROUPE_CHECK(at >= 0 && at < dims_) << "dim " << dim << " of " << to_string();
    return sizes_[static_cast<std::size_t>(at)];
  }
  std::int64_t elements() const {
    std::int64_t product = 1;
    for (int i = 0; i < dims_; ++i) product *= sizes_[static_cast<std::size_t>(i)];
    return product;
  }
  std::string to_string() const;
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, 4> sizes_{};
  int dims_ = 0;
};

template <bool kConst>
class BasicTensorView {
 public:
  using Pointer = std::conditional_t<kConst, const void*, void*>;

  BasicTensorView() = default;  // no tensor: an optional kernel argument left out
  BasicTensorView(Pointer data, DType type, Shape shape) : data_(data), type_(type), shape_(shape) {}
  template <bool kOther>
    requires(kConst && !kOther)
  BasicTensorView(const BasicTensorView<kOther>& other)  // NOLINT: a view narrows to a const view silently
      : data_(other.raw()), type_(other.type()), shape_(other.shape()) {}

  explicit operator bool() const { return data_ != nullptr; }
  Pointer raw() const { return data_; }
  DType type() const { return type_; }
  const Shape& shape() const { return shape_; }
  std::int64_t elements() const { return shape_.elements(); }
  std::int64_t bytes() const { return elements() * size_bytes(type_); }

  template <class T>
  auto data() const {
    TROUPE_CHECK(dtype_of<T>() == type_) << "tensor is " << name(type_) << " " << shape_.to_string();
    return static_cast<std::conditional_t<kConst, const T, T>*>(data_);
  }
  BasicTensorView reshaped(Shape shape) const {
    TROUPE_CHECK(shape.elements() == elements()) << shape_.to_string() << " as " << shape.to_string();
    return {data_, type_, shape};
  }
  // Rows [begin, end) of the first dim.
  BasicTensorView rows(std::int64_t begin, std::int64_t end) const;

 private:
  Pointer data_ = nullptr;
  DType type_ = DType::kF32;
  Shape shape_;
};

using TensorView = BasicTensorView<false>;
using ConstTensorView = BasicTensorView<true>;

// A view plus a share of the buffer it looks into.
class Tensor {
 public:
  Tensor() = default;
  // A fresh tensor from `pool`; `term` is the plan's name for what it is (see pool.h).
  Tensor(BufferPool& pool, const std::string& term, DType type, Shape shape);
  // A part of `buffer` starting at `offset_bytes`.
  Tensor(Buffer buffer, std::int64_t offset_bytes, DType type, Shape shape);

  // Shape and type only: what the plan's CountingAllocator gives.
  static Tensor without_memory(DType type, Shape shape) {
    Tensor tensor;
    tensor.view_ = TensorView(nullptr, type, shape);
    return tensor;
  }

  // Rows [begin, end) of the first dim, in the same buffer.
  Tensor rows(std::int64_t begin, std::int64_t end) const;

  explicit operator bool() const { return view_.shape().dims() > 0; }  // also without memory
  TensorView view() const { return view_; }
  operator TensorView() const { return view_; }            // NOLINT: kernels take views
  operator ConstTensorView() const { return view_; }       // NOLINT
  const Shape& shape() const { return view_.shape(); }
  DType type() const { return view_.type(); }

 private:
  Buffer buffer_;
  TensorView view_;
};

}  // namespace troupe::device
