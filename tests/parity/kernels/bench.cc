#include "tests/parity/kernels/bench.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/ref/element.h"
#include "kernels/ref/ref.h"

namespace troupe::kernels::parity {
namespace {

constexpr std::int64_t kGuardBytes = 192;
constexpr std::byte kGuard{0xA5};
constexpr std::byte kPoison{0xFF};  // a NaN in every float type

DType reference_type(const Field& field, DType model) {
  if (field.holds == Holds::kInt32 || field.same_in_reference) return declared_type(field, model);
  return DType::kF64;
}

void write(const TensorView& view, const std::vector<double>& numbers) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    if (view.type() == DType::kI32) {
      view.data<std::int32_t>()[at] = static_cast<std::int32_t>(numbers[i]);
    } else {
      ref::store(view, at, numbers[i]);
    }
  }
}

std::vector<double> read(const ConstTensorView& view) {
  std::vector<double> numbers(static_cast<std::size_t>(view.elements()));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = ref::load(view, static_cast<std::int64_t>(i));
  return numbers;
}

std::vector<std::byte> bytes_of(const ConstTensorView& view) {
  const auto* begin = static_cast<const std::byte*>(view.raw());
  return {begin, begin + view.bytes()};
}

}  // namespace

struct Bench::Placed {
  device::Buffer buffer;
  TensorView view;
  std::vector<std::byte> before;

  bool guards_hold() const {
    const std::byte *begin = buffer.data(), *end = begin + buffer.bytes(),
                    *data = static_cast<std::byte*>(view.raw());
    const auto is_guard = [](std::byte b) { return b == kGuard; };
    return std::all_of(begin, static_cast<const std::byte*>(data), is_guard) &&
           std::all_of(static_cast<const std::byte*>(data) + view.bytes(), end, is_guard);
  }
};

DType declared_type(const Field& field, DType model) {
  if (field.fixed) return *field.fixed;
  switch (field.holds) {
    case Holds::kFloat32:
      return DType::kF32;
    case Holds::kFloat64:
      return DType::kF64;
    case Holds::kInt32:
      return DType::kI32;
    case Holds::kModel:
    case Holds::kFloat:
      return model;
  }
  return model;
}

Bench::Placed Bench::place(const Field& field, DType type, std::int64_t shift) {
  const auto bytes = field.shape.elements() * device::size_bytes(type);
  Placed placed;
  placed.buffer = pool_.take("test", bytes + 2 * kGuardBytes);
  std::memset(placed.buffer.data(), static_cast<int>(kGuard),
              static_cast<std::size_t>(placed.buffer.bytes()));
  std::byte* data = placed.buffer.data() + 64 + shift * device::size_bytes(type);
  std::memset(data, static_cast<int>(kPoison), static_cast<std::size_t>(bytes));
  placed.view = TensorView(data, type, field.shape);
  return placed;
}

Numbers Bench::inputs(const Case& c, DType model) {
  Numbers numbers;
  std::vector<DType> types;
  for (std::size_t f = 0; f < c.fields.size(); ++f) {
    const Field& field = c.fields[f];
    types.push_back(reference_type(field, model));
    if (field.role == Role::kOutput || field.derived) continue;
    const RandomStream random(
        {.seed = 11,
         .sample = static_cast<std::int64_t>(std::hash<std::string>{}(c.op + c.name) >> 1),
         .layer = static_cast<std::int32_t>(f)});
    auto& list = numbers[field.name];
    for (std::int64_t i = 0; i < field.shape.elements(); ++i) {
      list.push_back(
          ref::round_to(declared_type(field, model), field.fill(random, static_cast<std::uint64_t>(i))));
    }
  }
  if (!c.prepare) return numbers;
  const Outcome prepared = execute(c, c.prepare, ref::table(), types, numbers, {}, 0, false);
  for (const Field& field : c.fields) {
    if (!field.derived) continue;
    auto& list = numbers[field.name] = prepared.outputs.at(field.name);
    for (double& value : list) value = ref::round_to(declared_type(field, model), value);
  }
  return numbers;
}

Numbers Bench::reference(const Case& c, DType model, const Numbers& inputs) {
  std::vector<DType> types;
  for (const Field& field : c.fields) types.push_back(reference_type(field, model));
  return execute(c, c.call, ref::table(), types, inputs, {}, 0, false).outputs;
}

Outcome Bench::run(const Case& c, const Table& table, DType model, const Numbers& inputs,
                   Placement placement) {
  std::vector<DType> types;
  for (const Field& field : c.fields) types.push_back(declared_type(field, model));
  // No more than the op asks for; the floor is what every stream of a plan has.
  const std::int64_t floor = cross_entropy_scratch_bytes(1, 1, 1);
  const std::int64_t asked = c.scratch_bytes ? c.scratch_bytes(table, model, placement.threads) : floor;
  return execute(c, c.call, table, types, inputs, placement, asked, true);
}

Outcome Bench::execute(const Case& c, const Call& call, const Table& table, const std::vector<DType>& types,
                       const Numbers& inputs, Placement placement, std::int64_t scratch_bytes,
                       bool share_memory) {
  // Scratch first: in a fresh pool the first tensor's guard follows it.
  device::Buffer scratch = scratch_bytes > 0 ? pool_.take("scratch", scratch_bytes) : device::Buffer{};
  Outcome outcome;
  std::map<std::string, Placed> placed;
  Tensors tensors;
  std::map<std::string, std::string> shared_by;  // input -> output in its place
  for (std::size_t f = 0; f < c.fields.size(); ++f) {
    const Field& field = c.fields[f];
    if (share_memory && !field.in_place_of.empty()) {
      shared_by[field.in_place_of] = field.name;
      continue;
    }
    Placed& own = placed[field.name] = place(field, types[f], placement.shift_elements);
    if (const auto it = inputs.find(field.name); it != inputs.end()) write(own.view, it->second);
    own.before = bytes_of(own.view);
    tensors.set(field.name, own.view);
  }
  for (const auto& [input, output] : shared_by) tensors.set(output, placed.at(input).view);
  {
    device::HostStream stream("parity", placement.threads, std::move(scratch));
    call(table, stream, tensors);
    stream.synchronize();
    TROUPE_CHECK(stream.first_error().ok()) << c.op << ": " << std::string(stream.first_error().message());
  }
  for (const Field& field : c.fields) {
    const TensorView view = tensors[field.name];
    if (field.role != Role::kInput || field.derived) {
      outcome.outputs[field.name] = read(view);
      outcome.bytes[field.name] = bytes_of(view);
    }
    const auto it = placed.find(field.name);
    if (it == placed.end()) continue;
    if (!it->second.guards_hold()) outcome.stray_writes.push_back("beside " + field.name);
    if (field.role == Role::kInput && !shared_by.contains(field.name) &&
        bytes_of(view) != it->second.before) {
      outcome.stray_writes.push_back("into input " + field.name);
    }
  }
  return outcome;
}

double error(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (std::isnan(a[i]) != std::isnan(b[i])) return std::numeric_limits<double>::infinity();
    if (a[i] == b[i] || std::isnan(b[i])) continue;
    difference = std::max(difference, std::fabs(a[i] - b[i]));
  }
  for (const double value : b) size = std::max(size, std::fabs(value));
  return size > 0 ? difference / size : difference;
}

}  // namespace troupe::kernels::parity
