#include "kernels/shape_checker.h"

#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace troupe::kernels {
namespace {

using device::DType;
using device::Shape;

std::string text(ConstTensorView view) {
  if (!view) return "left out";
  return absl::StrCat(std::string(device::name(view.type())), " ", view.shape().to_string());
}

const char* allowed(Holds holds, Types types) {
  if (holds == Holds::kInt32) return "int32";
  if (types == Types::kAnyFloat || holds == Holds::kFloat) return "fp32, bf16 or fp64";
  if (holds == Holds::kFloat32) return "fp32";
  return holds == Holds::kFloat64 ? "fp64" : "bf16 or fp32, one for the whole operation";
}

bool overlap(ConstTensorView a, ConstTensorView b) {
  const auto a_begin = reinterpret_cast<std::uintptr_t>(a.raw()),
             b_begin = reinterpret_cast<std::uintptr_t>(b.raw());
  const auto a_bytes = static_cast<std::uintptr_t>(a.bytes()),
             b_bytes = static_cast<std::uintptr_t>(b.bytes());
  return a_bytes > 0 && b_bytes > 0 && a_begin < b_begin + b_bytes && b_begin < a_begin + a_bytes;
}

}  // namespace

Shape ShapeChecker::shape_of(const char* field, ConstTensorView view, int dims) {
  TROUPE_CHECK(view) << op_ << ": " << field << " is left out, must be a tensor of " << dims << " dims";
  TROUPE_CHECK(view.shape().dims() == dims)
      << op_ << ": " << field << " is " << text(view) << ", must have " << dims << " dims";
  return view.shape();
}

HeadRow ShapeChecker::heads(const char* field, const Shape& row, int q_heads, int kv_heads) {
  require(q_heads >= 1, "q_heads >= 1", q_heads);
  require(kv_heads >= 1 && q_heads % kv_heads == 0, "kv_heads >= 1, a divisor of q_heads", kv_heads);
  const std::int64_t all = q_heads + 2 * std::int64_t{kv_heads}, columns = row[-1];
  TROUPE_CHECK(columns > 0 && columns % all == 0)
      << op_ << ": " << field << " is " << row.to_string()
      << ", its last dim must be a multiple of q_heads + 2 kv_heads = " << all;
  return {q_heads, kv_heads, columns, columns / all};
}

void ShapeChecker::reads(const char* field, ConstTensorView view, Holds holds, const Shape& expected) {
  add(field, view, holds, expected, false);
}
void ShapeChecker::writes(const char* field, ConstTensorView view, Holds holds, const Shape& expected) {
  add(field, view, holds, expected, true);
}
void ShapeChecker::may_read(const char* field, ConstTensorView view, Holds holds, const Shape& expected) {
  if (view) add(field, view, holds, expected, false);
}
void ShapeChecker::may_write(const char* field, ConstTensorView view, Holds holds, const Shape& expected) {
  if (view) add(field, view, holds, expected, true);
}

void ShapeChecker::add(const char* field, ConstTensorView view, Holds holds, const Shape& expected,
                       bool written) {
  TROUPE_CHECK(view) << op_ << ": " << field << " is left out, must be " << expected.to_string() << seen();
  TROUPE_CHECK(view.shape() == expected)
      << op_ << ": " << field << " is " << text(view) << ", must be " << expected.to_string() << seen();
  TROUPE_CHECK(type_allowed(holds, view.type()))
      << op_ << ": " << field << " is " << text(view) << ", must be " << allowed(holds, types_) << seen();
  TROUPE_CHECK(field_count_ < kFields) << op_ << " has more than " << kFields << " tensors";
  fields_[field_count_] = {field, view, written};
  if (holds == Holds::kModel && !model_) model_ = &fields_[field_count_];
  ++field_count_;
}

bool ShapeChecker::type_allowed(Holds holds, DType type) const {
  const bool is_float = type == DType::kF32 || type == DType::kBF16 || type == DType::kF64;
  if (holds == Holds::kInt32) return type == DType::kI32;
  if (types_ == Types::kAnyFloat || holds == Holds::kFloat) return is_float;
  if (holds == Holds::kFloat32) return type == DType::kF32;
  if (holds == Holds::kFloat64) return type == DType::kF64;
  return (type == DType::kF32 || type == DType::kBF16) && (!model_ || model_->view.type() == type);
}

void ShapeChecker::may_alias(const char* output, const char* other) {
  TROUPE_CHECK(pair_count_ < pairs_.size()) << op_ << " has too many pairs that may alias";
  pairs_[pair_count_++] = {output, other};
}

void ShapeChecker::together(const char* field, bool there, const char* other, bool other_there) {
  TROUPE_CHECK(there == other_there) << op_ << ": " << field << " is " << (there ? "given" : "left out")
                                     << " but " << other << " is " << (other_there ? "given" : "left out")
                                     << ", must be both or none" << seen();
}

void ShapeChecker::require(bool holds, const char* rule, double value) {
  TROUPE_CHECK(holds) << op_ << ": must be " << rule << ", is " << value << seen();
}

std::string ShapeChecker::seen() const {
  std::string all;
  for (std::size_t i = 0; i < field_count_; ++i) {
    absl::StrAppend(&all, i ? ", " : " (", fields_[i].name, " ", text(fields_[i].view));
  }
  return all.empty() ? all : all + ")";
}

ShapeChecker::~ShapeChecker() {
  for (std::size_t i = 0; i < field_count_; ++i) {
    for (std::size_t j = 0; j < field_count_; ++j) {
      const Field &output = fields_[i], &other = fields_[j];
      if (i == j || !output.written || !overlap(output.view, other.view)) continue;
      bool may = false;
      for (std::size_t k = 0; k < pair_count_; ++k) {
        const auto is = [&](const Field& a, const Field& b) {
          return !std::strcmp(pairs_[k].output, a.name) && !std::strcmp(pairs_[k].other, b.name);
        };
        may = may || is(output, other) || is(other, output);
      }
      const bool in_place = output.view.raw() == other.view.raw() && output.view.type() == other.view.type();
      TROUPE_CHECK(may && in_place) << op_ << ": " << output.name << " " << text(output.view) << " overlaps "
                                    << other.name << " " << text(other.view) << ", "
                                    << (may ? "must be the same memory and type, or apart" : "must be apart");
    }
  }
}

}  // namespace troupe::kernels
