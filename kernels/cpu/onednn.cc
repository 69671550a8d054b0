#include "kernels/cpu/onednn.h"

#include <array>
#include <cstring>
#include <list>
#include <string_view>
#include <utility>

#include "kernels/cpu/gemm.h"
#include "oneapi/dnnl/dnnl.hpp"

// Of g++'s OpenMP library; declared here because clang looks for omp.h in its own.
extern "C" void omp_set_num_threads(int);

namespace troupe::kernels::cpu {
namespace {

using device::DType;

// Shapes of one model's products: some ten per block kind, times a last, shorter chunk.
constexpr std::size_t kPrimitives = 96;

void use_one_thread() {
  thread_local const bool done = [] {
    omp_set_num_threads(1);
    return true;
  }();
  (void)done;
}

// A member's part of a product: as Gemm, with the operands moved to its corner.
struct Part {
  std::int64_t m, n, k;
  GemmOperand a, b;
  GemmOutput c;
  bool add;  // c holds what the product is added to
};

template <class Byte>
Byte* moved(Byte* data, DType type, std::int64_t elements) {
  using Raw = std::conditional_t<std::is_const_v<Byte>, const std::byte, std::byte>;
  return data ? static_cast<Raw*>(data) + elements * size_bytes(type) : nullptr;
}

void multiply_fp32(const GemmKernels&, const Part& p) {
  const auto status =
      dnnl_sgemm(p.a.transposed ? 'T' : 'N', p.b.transposed ? 'T' : 'N', p.m, p.n, p.k, 1.0f,
                 static_cast<const float*>(p.a.data), p.a.stride, static_cast<const float*>(p.b.data),
                 p.b.stride, p.add ? 1.0f : 0.0f, static_cast<float*>(p.c.data), p.c.stride);
  TROUPE_CHECK(status == dnnl_success) << "dnnl_sgemm: status " << static_cast<int>(status);
}

dnnl::memory::data_type onednn_type(DType type) {
  return type == DType::kBF16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}
dnnl::memory::desc matrix(std::int64_t rows, std::int64_t columns, DType type, std::int64_t stride,
                          bool transposed) {
  return dnnl::memory::desc({rows, columns}, onednn_type(type),
                            transposed ? dnnl::memory::dims{1, stride} : dnnl::memory::dims{stride, 1});
}

dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const Part& p) {
  dnnl::primitive_attr attributes;
  if (p.add) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  const auto a = matrix(p.m, p.k, p.a.type, p.a.stride, p.a.transposed);
  const auto b = matrix(p.k, p.n, p.b.type, p.b.stride, p.b.transposed);
  const auto c = matrix(p.m, p.n, p.c.type, p.c.stride, false);
  const auto operation = p.c.bias ? dnnl::matmul::desc(a, b, matrix(1, p.n, p.c.type, p.n, false), c)
                                  : dnnl::matmul::desc(a, b, c);
  return dnnl::matmul::primitive_desc(operation, attributes, engine, /*allow_empty=*/true);
}

bool is_fast(const dnnl::matmul::primitive_desc& description) {
  return description && std::string_view(description.impl_info_str()).find("ref") == std::string_view::npos;
}

// One thread's primitives, most recently used first.
class Primitives {
 public:
  void multiply(const Part& p) {
    const Key key{p.m,
                  p.n,
                  p.k,
                  p.a.stride,
                  p.b.stride,
                  p.c.stride,
                  (p.a.transposed ? 1 : 0) | (p.b.transposed ? 2 : 0) | (p.add ? 4 : 0) | (p.c.bias ? 8 : 0) |
                      static_cast<std::int64_t>(p.a.type) << 8 | static_cast<std::int64_t>(p.c.type) << 16};
    Entry& entry = find(key, p);
    entry.a.set_data_handle(const_cast<void*>(p.a.data));
    entry.b.set_data_handle(const_cast<void*>(p.b.data));
    entry.c.set_data_handle(p.c.data);
    std::array<dnnl_exec_arg_t, 4> arguments{{{DNNL_ARG_SRC, entry.a.get()},
                                              {DNNL_ARG_WEIGHTS, entry.b.get()},
                                              {DNNL_ARG_DST, entry.c.get()},
                                              {DNNL_ARG_BIAS, nullptr}}};
    if (p.c.bias) {
      entry.bias.set_data_handle(const_cast<void*>(p.c.bias));
      arguments[3].memory = entry.bias.get();
    }
    // the C function: the C++ one builds a hash map at each call
    const auto status =
        dnnl_primitive_execute(entry.primitive.get(), stream_.get(), p.c.bias ? 4 : 3, arguments.data());
    TROUPE_CHECK(status == dnnl_success) << "oneDNN matmul: status " << static_cast<int>(status);
  }

 private:
  using Key = std::array<std::int64_t, 7>;
  struct Entry {
    Key key;
    dnnl::matmul primitive;
    dnnl::memory a, b, c, bias;
  };

  Entry& find(const Key& key, const Part& p) {
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (it->key != key) continue;
      entries_.splice(entries_.begin(), entries_, it);
      return entries_.front();
    }
    const auto description = describe(engine_, p);
    TROUPE_CHECK(description) << "oneDNN has no matmul for " << p.m << " x " << p.n << " x " << p.k << " of "
                              << name(p.a.type);
    if (entries_.size() == kPrimitives) entries_.pop_back();
    entries_.push_front({key, dnnl::matmul(description), unbound(description.src_desc()),
                         unbound(description.weights_desc()), unbound(description.dst_desc()),
                         p.c.bias ? unbound(description.bias_desc()) : dnnl::memory()});
    return entries_.front();
  }
  dnnl::memory unbound(const dnnl::memory::desc& description) const {
    return dnnl::memory(description, engine_, DNNL_MEMORY_NONE);
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::list<Entry> entries_;
};

void multiply_by_primitive(const GemmKernels&, const Part& p) {
  thread_local Primitives primitives;
  if (p.c.residual && p.c.residual != p.c.data) {
    // prefilled; oneDNN adds to it in fp32 before rounding
    const std::int64_t row_bytes = p.n * size_bytes(p.c.type), step = p.c.stride * size_bytes(p.c.type);
    for (std::int64_t row = 0; row < p.m; ++row) {
      std::memcpy(static_cast<std::byte*>(p.c.data) + row * step,
                  static_cast<const std::byte*>(p.c.residual) + row * step,
                  static_cast<std::size_t>(row_bytes));
    }
  }
  Part added = p;
  added.add = p.add || p.c.residual;
  primitives.multiply(added);
}

template <class Multiply>
void on_team(const GemmKernels& kernels, device::ThreadTeam& team, const Gemm& g, const Multiply& multiply) {
  // parts at multiples of what oneDNN's register tiles divide
  const GemmGrid grid = GemmGrid::of(g.m, g.n, 48, 64, team.size());
  team.run([&](int member, int) {
    const auto rows = GemmGrid::part(g.m, 48, member / grid.columns, grid.rows);
    const auto columns = GemmGrid::part(g.n, 64, member % grid.columns, grid.columns);
    if (rows.begin >= rows.end || columns.begin >= columns.end) return;
    use_one_thread();
    Part p{.m = rows.end - rows.begin,
           .n = columns.end - columns.begin,
           .k = g.k,
           .a = g.a,
           .b = g.b,
           .c = g.c,
           .add = g.accumulate};
    const std::int64_t corner = rows.begin * g.c.stride + columns.begin;
    p.a.data = moved(g.a.data, g.a.type, g.a.transposed ? rows.begin : rows.begin * g.a.stride);
    p.b.data = moved(g.b.data, g.b.type, g.b.transposed ? columns.begin * g.b.stride : columns.begin);
    p.c.data = moved(g.c.data, g.c.type, corner);
    p.c.residual = moved(g.c.residual, g.c.type, corner);
    p.c.bias = moved(g.c.bias, g.c.type, columns.begin);
    multiply(kernels, p);
  });
}

// sgemm knows neither bias nor residual: they are added to its output, or it to them where y is the residual.
void multiply_fp32_and_finish(const GemmKernels& kernels, const Part& p) {
  Part product = p;
  const bool in_place = p.c.residual && p.c.residual == p.c.data;
  product.add = p.add || in_place;
  multiply_fp32(kernels, product);
  if (!p.c.bias && (!p.c.residual || in_place)) return;
  GemmOutput out = p.c;
  if (in_place) out.residual = nullptr;
  kernels.finish(out, static_cast<const float*>(p.c.data), p.c.stride, 0, p.m, 0, p.n);
}

}  // namespace

bool onednn_multiplies_bf16() {
  static const bool does = [] {
    // the three products of a layer, each with what it needs
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    const auto operand = [](bool transposed) { return GemmOperand{nullptr, DType::kBF16, 256, transposed}; };
    const float bias = 0;
    const GemmOutput narrow{
        .data = nullptr, .type = DType::kBF16, .stride = 256, .bias = &bias, .residual = nullptr};
    const GemmOutput wide{
        .data = nullptr, .type = DType::kF32, .stride = 256, .bias = nullptr, .residual = nullptr};
    return is_fast(describe(engine, {256, 256, 256, operand(false), operand(true), narrow, true})) &&
           is_fast(describe(engine, {256, 256, 256, operand(false), operand(false), wide, false})) &&
           is_fast(describe(engine, {256, 256, 256, operand(true), operand(false), wide, true}));
  }();
  return does;
}

void gemm_by_onednn(const GemmKernels& kernels, device::ThreadTeam& team, const Gemm& g) {
  on_team(
      kernels, team, g,
      g.a.type == DType::kF32 && g.c.type == DType::kF32 ? multiply_fp32_and_finish : multiply_by_primitive);
}

void gemm_by_primitives(const GemmKernels& kernels, device::ThreadTeam& team, const Gemm& g) {
  on_team(kernels, team, g, multiply_by_primitive);
}

}  // namespace troupe::kernels::cpu
