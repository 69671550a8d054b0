#include "runtime/device/tensor.h"

#include "absl/strings/str_cat.h"

namespace troupe::device {

std::string Shape::to_string() const {
  std::string text = "[";
  for (int i = 0; i < dims_; ++i) absl::StrAppend(&text, i ? ", " : "", sizes_[static_cast<std::size_t>(i)]);
  return text + "]";
}

template <bool kConst>
BasicTensorView<kConst> BasicTensorView<kConst>::rows(std::int64_t begin, std::int64_t end) const {
  TROUPE_CHECK(0 <= begin && begin <= end && end <= shape_[0]) << begin << ".." << end << " of " << shape_.to_string();
  const std::int64_t row_bytes = shape_[0] ? bytes() / shape_[0] : 0;
  using Byte = std::conditional_t<kConst, const std::byte, std::byte>;
  Shape part;
  switch (shape_.dims()) {
    case 1: part = {end - begin}; break;
    case 2: part = {end - begin, shape_[1]}; break;
    case 3: part = {end - begin, shape_[1], shape_[2]}; break;
    default: part = {end - begin, shape_[1], shape_[2], shape_[3]}; break;
  }
  return {static_cast<Byte*>(data_) + begin * row_bytes, type_, part};
}

template class BasicTensorView<false>;
template class BasicTensorView<true>;

Tensor::Tensor(BufferPool& pool, const std::string& term, DType type, Shape shape)
    : Tensor(pool.take(term, shape.elements() * size_bytes(type)), 0, type, shape) {}

Tensor::Tensor(Buffer buffer, std::int64_t offset_bytes, DType type, Shape shape)
    : buffer_(std::move(buffer)), view_(buffer_.data() + offset_bytes, type, shape) {
  TROUPE_CHECK(offset_bytes + view_.bytes() <= buffer_.bytes()) << "tensor leaves its buffer";
}

Tensor Tensor::rows(std::int64_t begin, std::int64_t end) const {
  Tensor part;
  part.buffer_ = buffer_;
  if (view_.raw()) {
    part.view_ = view_.rows(begin, end);
  } else {
    TROUPE_CHECK(shape().dims() == 1 && 0 <= begin && begin <= end && end <= shape()[0]) << begin << ".." << end << " of " << shape().to_string();
    part.view_ = TensorView(nullptr, type(), {end - begin});
  }
  return part;
}

}  // namespace troupe::device
