// One row of the parity tests: the tensors of one call of one kernel, how they are filled, and how the call
// is made. Knows no types: the same case runs in fp64 on ref for the truth, then in fp32 or bf16 on the
// filling under test.
//
// To add a case: a Case from a cases_*.cc file; to add an op: its function there, listed in cases.h.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/shape_checker.h"
#include "kernels/table.h"
#include "kernels/tolerance.h"
#include "runtime/base/rng.h"

namespace troupe::kernels::parity {

using device::DType;
using device::Shape;

// Value of element i of a tensor that has its own stream of random words.
using Generator = std::function<double(const RandomStream& random, std::uint64_t i)>;
Generator normal(double scale = 1, double mean = 0);
Generator integers(std::int64_t begin, std::int64_t end);  // uniform in [begin, end)
Generator values(std::vector<double> list);                // repeated where the tensor is longer

enum class Role { kInput, kOutput, kUpdated };  // kUpdated: read, then written

struct Field {
  std::string name;
  Shape shape;
  Holds holds = Holds::kModel;
  Role role = Role::kInput;
  Generator fill{};                // not for outputs
  std::string in_place_of{};       // an output that shares this input's memory; "" for its own
  std::optional<DType> fixed{};    // this type in every run
  bool same_in_reference = false;  // keeps its type in the reference: its rounding is part of the definition
  std::optional<Tolerance> tolerance{};  // the case's where absent
  bool derived = false;                  // an input that Case::prepare computes
};

// The tensors of a call by field name; a name that the case has not is an optional argument left out.
class Tensors {
 public:
  void set(const std::string& name, TensorView view) { views_[name] = view; }
  TensorView operator[](const std::string& name) const {
    const auto it = views_.find(name);
    return it == views_.end() ? TensorView{} : it->second;
  }

 private:
  std::map<std::string, TensorView> views_;
};

using Call = std::function<void(const Table&, Stream&, const Tensors&)>;

struct Case {
  std::string op;    // member of Table
  std::string name;  // sizes and options, for messages
  Tolerance tolerance{};
  Call call{};
  Call prepare{};                          // runs on ref in fp64 to compute derived inputs; none as a rule
  std::optional<DType> only{};             // runs for this model type only
  bool exact = false;                      // equal to the reference rounded once, bit for bit
  bool same_bits_for_any_threads = false;  // where the op's header promises it
  // What the op says it needs; where absent, the floor that Bench gives.
  std::function<std::int64_t(const Table&, DType, int threads)> scratch_bytes{};
  std::vector<Field> fields{};

  // Chained: c.input("x", {n, i}).output("y", {n, o}).
  Case& add(Field field);
  Case& input(const std::string& name_of, const Shape& shape, Generator fill = normal());
  Case& statistic(const std::string& name_of, const Shape& shape);  // fp32, derived
  Case& index(const std::string& name_of, const Shape& shape, Generator fill);
  Case& output(const std::string& name_of, const Shape& shape, const std::string& in_place_of = "");
  Case& output_fp32(const std::string& name_of, const Shape& shape, Tolerance tolerance_of);
  Case& accumulator(const std::string& name_of, const Shape& shape,
                    Tolerance tolerance_of = kWeightGradientTolerance);
};

}  // namespace troupe::kernels::parity
