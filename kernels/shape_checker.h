// Collects the tensors of one operation and says what is wrong with them; the vocabulary of check_shapes.cc.
//
// Use: one on the stack per operation; first(), reads(), writes() for each field, may_alias() for each
// allowed pair, then the destructor compares every output with every other tensor. Errors: TROUPE_CHECK.
// Limits: kFields tensors.
#pragma once

#include <array>
#include <string>

#include "kernels/check_shapes.h"

namespace troupe::kernels {

// What a field's type may be when types are as declared.
enum class Holds {
  kModel,    // bf16 or fp32, the same one for all such fields of the operation
  kFloat32,  // statistics, accumulators, master weights
  kFloat64,
  kFloat,  // any float type
  kInt32,
};

// A fused row [H q heads | G k heads | G v heads] of heads of size D.
struct HeadRow {
  std::int64_t q, kv, columns, size;  // H, G, (H + 2G) D, D
};

class ShapeChecker {
 public:
  ShapeChecker(const char* op, Types types) : op_(op), types_(types) {}
  ~ShapeChecker();
  ShapeChecker(const ShapeChecker&) = delete;
  ShapeChecker& operator=(const ShapeChecker&) = delete;

  // The shape of a required field that other shapes are derived from.
  device::Shape shape_of(const char* field, ConstTensorView view, int dims);

  HeadRow heads(const char* field, const device::Shape& row, int q_heads, int kv_heads);

  void reads(const char* field, ConstTensorView view, Holds holds, const device::Shape& expected);
  void writes(const char* field, ConstTensorView view, Holds holds, const device::Shape& expected);
  // Left out, or as reads() and writes().
  void may_read(const char* field, ConstTensorView view, Holds holds, const device::Shape& expected);
  void may_write(const char* field, ConstTensorView view, Holds holds, const device::Shape& expected);

  // Output and other field may be the same memory.
  void may_alias(const char* output, const char* other);
  // Both there or both left out.
  void together(const char* field, bool there, const char* other, bool other_there);
  void require(bool holds, const char* rule, double value);

 private:
  static constexpr std::size_t kFields = 12;
  struct Field {
    const char* name = nullptr;
    ConstTensorView view;
    bool written = false;
  };
  struct Pair {
    const char *output = nullptr, *other = nullptr;
  };

  void add(const char* field, ConstTensorView view, Holds holds, const device::Shape& expected, bool written);
  bool type_allowed(Holds holds, device::DType type) const;
  std::string seen() const;  // all fields so far, for messages

  const char* const op_;
  const Types types_;
  std::array<Field, kFields> fields_;
  std::size_t field_count_ = 0;
  std::array<Pair, 4> pairs_;
  std::size_t pair_count_ = 0;
  const Field* model_ = nullptr;  // the first kModel field
};

}  // namespace troupe::kernels
