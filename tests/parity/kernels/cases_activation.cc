#include "absl/strings/str_cat.h"
#include "tests/parity/kernels/cases.h"

namespace troupe::kernels::parity {
namespace {

constexpr std::pair<std::int64_t, std::int64_t> kSizes[] = {{1, 1},   {3, 7},   {17, 63},  {64, 64},
                                                            {65, 65}, {7, 257}, {257, 17}, {0, 17}};

std::string size_name(std::int64_t n, std::int64_t columns) { return absl::StrCat(n, "x", columns); }

// Where exp overflows and where the function is flat, beside the usual values.
Generator wide() {
  return [](const RandomStream& random, std::uint64_t i) {
    constexpr double kFar[] = {0, -0.0, 100, -100, 20, -20, 88.8, -88.8, 1e-6, -1e-6};
    return i < std::size(kFar) ? kFar[i] : 3 * random.normal(i);
  };
}

Case swiglu(std::int64_t n, std::int64_t inner) {
  Case c{.op = "swiglu", .name = size_name(n, inner), .tolerance = kElementwiseTolerance};
  c.input("gate_up", {n, 2 * inner}, wide()).output("y", {n, inner});
  c.call = [](const Table& t, Stream& stream, const Tensors& v) { t.swiglu(stream, {v["y"], v["gate_up"]}); };
  return c;
}

Case swiglu_gradient(std::int64_t n, std::int64_t inner, const char* in_place_of) {
  Case c{.op = "swiglu_input_gradient",
         .name = size_name(n, inner) + in_place_of,
         .tolerance = kElementwiseTolerance};
  c.input("dy", {n, inner})
      .input("gate_up", {n, 2 * inner}, wide())
      .output("dgate_up", {n, 2 * inner}, in_place_of);
  c.call = [](const Table& t, Stream& stream, const Tensors& v) {
    t.swiglu_input_gradient(stream, {v["dgate_up"], v["dy"], v["gate_up"]});
  };
  return c;
}

Case gelu(std::int64_t n, std::int64_t columns, GeluKind kind, const char* in_place_of) {
  Case c{.op = "gelu", .name = size_name(n, columns) + in_place_of, .tolerance = kElementwiseTolerance};
  c.input("x", {n, columns}, wide()).output("y", {n, columns}, in_place_of);
  c.call = [kind](const Table& t, Stream& stream, const Tensors& v) {
    t.gelu(stream, {v["y"], v["x"], kind});
  };
  return c;
}

Case gelu_gradient(std::int64_t n, std::int64_t columns, GeluKind kind, const char* in_place_of) {
  Case c{.op = "gelu_input_gradient",
         .name = size_name(n, columns) + in_place_of,
         .tolerance = kElementwiseTolerance};
  c.input("dy", {n, columns}).input("x", {n, columns}, wide()).output("dx", {n, columns}, in_place_of);
  c.call = [kind](const Table& t, Stream& stream, const Tensors& v) {
    t.gelu_input_gradient(stream, {v["dx"], v["dy"], v["x"], kind});
  };
  return c;
}

Case dropout(std::int64_t samples, std::int64_t rows_per_sample, std::int64_t columns, float probability,
             bool residual, const std::string& in_place_of) {
  const auto n = samples * rows_per_sample;
  Case c{.op = "dropout",
         .name = absl::StrCat(size_name(n, columns), " p ", probability, " in place of ", in_place_of),
         .tolerance = kElementwiseTolerance};
  c.same_bits_for_any_threads = true;
  c.input("x", {n, columns});
  if (residual) c.input("residual", {n, columns});
  c.index("sample_ids", {samples, 2}, values({7, 0, -5, 0, 7, 3, 123456789, -1}));  // beyond 31 and 32 bits
  c.output("y", {n, columns}, in_place_of);
  c.call = [=](const Table& t, Stream& stream, const Tensors& v) {
    const RandomKey key{.seed = 42, .step = 17, .sample = 99, .layer = 3, .use = 1};
    t.dropout(stream, {v["y"], v["x"], v["residual"], v["sample_ids"], rows_per_sample, key, probability});
  };
  return c;
}

}  // namespace

std::vector<Case> activation_cases() {
  std::vector<Case> cases;
  for (const auto& [n, columns] : kSizes) {
    for (const char* in_place_of : {"", "gate_up"}) cases.push_back(swiglu_gradient(n, columns, in_place_of));
    cases.push_back(swiglu(n, columns));
    for (const auto kind : {GeluKind::kTanh, GeluKind::kExact}) {
      for (const char* in_place_of : {"", "x"}) cases.push_back(gelu(n, columns, kind, in_place_of));
      for (const char* in_place_of : {"", "dy"})
        cases.push_back(gelu_gradient(n, columns, kind, in_place_of));
    }
  }
  for (const auto& [samples, rows] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {3, 7}, {2, 64}, {4, 17}, {0, 3}}) {
    for (const std::int64_t columns : {1, 3, 63, 64, 257}) {
      cases.push_back(dropout(samples, rows, columns, 0.1f, false, ""));
      cases.push_back(dropout(samples, rows, columns, 0.5f, true, "x"));
    }
  }
  cases.push_back(dropout(2, 7, 65, 0.3f, true, "residual"));
  cases.push_back(dropout(2, 7, 65, 0.3f, false, "x"));
  cases.push_back(dropout(2, 7, 65, 0.0f, true, ""));
  cases.push_back(dropout(2, 7, 65, 0.99f, false, ""));
  return cases;
}

}  // namespace troupe::kernels::parity
