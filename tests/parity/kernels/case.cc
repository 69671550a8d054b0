#include "tests/parity/kernels/case.h"

#include <utility>

namespace troupe::kernels::parity {

Generator normal(double scale, double mean) {
  return [=](const RandomStream& random, std::uint64_t i) { return mean + scale * random.normal(i); };
}

Generator integers(std::int64_t begin, std::int64_t end) {
  return [=](const RandomStream& random, std::uint64_t i) {
    return static_cast<double>(begin + static_cast<std::int64_t>(random.at(i)) % (end - begin));
  };
}

Generator values(std::vector<double> list) {
  return [list = std::move(list)](const RandomStream&, std::uint64_t i) { return list[i % list.size()]; };
}

Case& Case::add(Field field) {
  fields.push_back(std::move(field));
  return *this;
}

Case& Case::input(const std::string& name_of, const Shape& shape, Generator fill) {
  return add({.name = name_of, .shape = shape, .fill = std::move(fill)});
}

Case& Case::statistic(const std::string& name_of, const Shape& shape) {
  return add({.name = name_of, .shape = shape, .holds = Holds::kFloat32, .derived = true});
}

Case& Case::index(const std::string& name_of, const Shape& shape, Generator fill) {
  return add({.name = name_of, .shape = shape, .holds = Holds::kInt32, .fill = std::move(fill)});
}

Case& Case::output(const std::string& name_of, const Shape& shape, const std::string& in_place_of) {
  return add({.name = name_of, .shape = shape, .role = Role::kOutput, .in_place_of = in_place_of});
}

Case& Case::output_fp32(const std::string& name_of, const Shape& shape, Tolerance tolerance_of) {
  return add({.name = name_of,
              .shape = shape,
              .holds = Holds::kFloat32,
              .role = Role::kOutput,
              .tolerance = Tolerance{tolerance_of.fp32, tolerance_of.fp32}});
}

Case& Case::accumulator(const std::string& name_of, const Shape& shape, Tolerance tolerance_of) {
  return add({.name = name_of,
              .shape = shape,
              .holds = Holds::kFloat32,
              .role = Role::kUpdated,
              .fill = normal(),
              .tolerance = tolerance_of});
}

}  // namespace troupe::kernels::parity
