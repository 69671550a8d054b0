// The cpu filling's matrix product, every path of it, against sums in double.
#include "kernels/cpu/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/cpu/onednn.h"
#include "kernels/cross_entropy.h"

namespace troupe::kernels::cpu {
namespace {

using device::bfloat16;
using device::DType;

// What a member of the family of products looks like: op(a) [m, k], op(b) [k, n].
struct Case {
  std::int64_t m, n, k;
  bool a_transposed, b_transposed;
  DType type, output;
  bool bias, residual, residual_is_output, accumulate;
};

// Values in [-1, 1), exact in bf16, so that the reference reads what the kernel reads.
class Matrix {
 public:
  Matrix(std::int64_t count, DType type, std::uint32_t seed)
      : type_(type), bytes_(static_cast<std::size_t>(count * size_bytes(type))) {
    for (std::int64_t i = 0; i < count; ++i) {
      seed = seed * 1664525u + 1013904223u;
      set(i, static_cast<float>(static_cast<int>(seed >> 24) - 128) / 128.0f);
    }
  }
  void set(std::int64_t i, float value) {
    if (type_ == DType::kF32) {
      reinterpret_cast<float*>(bytes_.data())[i] = value;
    } else {
      reinterpret_cast<bfloat16*>(bytes_.data())[i] = bfloat16(value);
    }
  }
  double at(std::int64_t i) const {
    return type_ == DType::kF32 ? reinterpret_cast<const float*>(bytes_.data())[i]
                                : static_cast<float>(reinterpret_cast<const bfloat16*>(bytes_.data())[i]);
  }
  void* data() { return bytes_.data(); }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  DType type_;
  std::vector<std::byte> bytes_;
};

using Product = void (*)(const GemmKernels&, device::StreamContext&, const Gemm&);
void product_chosen(const GemmKernels& k, device::StreamContext& c, const Gemm& g) { gemm(k, c, g); }
void product_by_panels(const GemmKernels& k, device::StreamContext& c, const Gemm& g) {
  gemm_by(GemmPath::kPanels, k, c, g);
}
void product_by_few_rows(const GemmKernels& k, device::StreamContext& c, const Gemm& g) {
  gemm_by(GemmPath::kFewRows, k, c, g);
}
void product_by_primitives(const GemmKernels& k, device::StreamContext& c, const Gemm& g) {
  gemm_by_primitives(k, c.team, g);
}

std::vector<const GemmKernels*> kernels_of_this_cpu() {
  std::vector<const GemmKernels*> all{&gemm_kernels<Isa::kBaseline>()};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    all.push_back(&gemm_kernels<Isa::kAvx2>());
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    all.push_back(&gemm_kernels<Isa::kAvx512>());
  }
  return all;
}

std::string described(const Case& c, const GemmKernels& kernels, int threads) {
  std::ostringstream text;
  text << "m " << c.m << " n " << c.n << " k " << c.k << " transposed " << c.a_transposed << c.b_transposed << " " << name(c.type) << " to "
       << name(c.output) << " bias " << c.bias << " residual " << c.residual << c.residual_is_output << " accumulate " << c.accumulate
       << " threads " << threads << " lanes " << kernels.panel_columns / 2;
  return text.str();
}

struct Outcome {
  std::vector<std::byte> bytes;
  double error;  // largest distance from the sums in double, over what is allowed; not computed where nobody asks
};

Outcome run(const Case& c, const GemmKernels& kernels, Product product, int threads, bool compare = true) {
  Matrix a(c.m * c.k, c.type, 1), b(c.k * c.n, c.type, 2), y(c.m * c.n, c.output, 3), bias(c.n, c.output, 4),
      residual(c.m * c.n, c.output, 5);
  const Matrix before = c.residual && !c.residual_is_output ? residual : y;
  device::ThreadTeam team(threads);
  const std::int64_t bytes = gemm_scratch_bytes(kernels, c.m, c.n, c.k, threads);
  std::vector<std::byte> scratch(static_cast<std::size_t>(bytes) + 64);
  auto* aligned = scratch.data() + (64 - reinterpret_cast<std::uintptr_t>(scratch.data()) % 64) % 64;
  device::StreamContext context{team, aligned, bytes};
  Gemm g{.m = c.m,
         .n = c.n,
         .k = c.k,
         .a = {a.data(), c.type, c.a_transposed ? c.m : c.k, c.a_transposed},
         .b = {b.data(), c.type, c.b_transposed ? c.k : c.n, c.b_transposed},
         .c = {.data = y.data(), .type = c.output, .stride = c.n},
         .accumulate = c.accumulate};
  if (c.bias) g.c.bias = bias.data();
  if (c.residual) g.c.residual = c.residual_is_output ? y.data() : residual.data();
  product(kernels, context, g);

  if (!compare) return {y.bytes(), 0};

  // columns of op(b), each in one piece, and a row of op(a)
  std::vector<double> columns, row(static_cast<std::size_t>(c.k));
  for (std::int64_t i = 0; i < c.n * c.k; ++i) columns.push_back(b.at(c.b_transposed ? i : i % c.k * c.n + i / c.k));
  // of a large product only some elements, spread over rows and columns
  const std::int64_t step = 1 + c.m * c.n * c.k / 20'000'000 * 7;
  double worst = 0, largest = 0;
  for (std::int64_t i = 0; i < c.m; ++i) {
    if (i % step >= c.n) continue;
    for (std::int64_t k = 0; k < c.k; ++k) row[static_cast<std::size_t>(k)] = a.at(c.a_transposed ? k * c.m + i : i * c.k + k);
    for (std::int64_t j = i % step; j < c.n; j += step) {
      const double* column = &columns[static_cast<std::size_t>(j * c.k)];
      double sum = 0;
      for (const double x : row) sum += x * *column++;
      if (c.bias) sum += bias.at(j);
      if (c.residual || c.accumulate) sum += before.at(i * c.n + j);
      const double distance = std::abs(sum - y.at(i * c.n + j));
      worst = std::isnan(distance) ? INFINITY : std::max(worst, distance);
      if (std::isinf(worst)) return {y.bytes(), worst};
      largest = std::max(largest, std::abs(sum));
    }
  }
  const double allowed = (c.output == DType::kBF16 ? 4e-3 : 2e-6) * largest;
  return {y.bytes(), worst <= allowed ? (worst > 0 ? worst / allowed : 0) : std::max(2.0, worst / allowed)};
}

// The kinds that occur: forward with and without its additions, input gradient, weight gradient, logits.
std::vector<Case> kinds(std::int64_t m, std::int64_t n, std::int64_t k, DType type) {
  std::vector<Case> all;
  for (const bool transposed : {false, true}) {
    all.push_back({m, n, k, false, transposed, type, type, false, false, false, false});
    all.push_back({m, n, k, false, transposed, type, type, true, false, false, false});
    all.push_back({m, n, k, false, transposed, type, type, true, true, false, false});
    all.push_back({m, n, k, false, transposed, type, type, true, true, true, false});
    all.push_back({m, n, k, false, transposed, type, DType::kF32, false, false, false, false});
  }
  all.push_back({m, n, k, true, false, type, DType::kF32, false, false, false, true});
  return all;
}

struct Size {
  std::int64_t m, n, k;
};
// Whole tiles, every kind of edge, one element, more than one block of each loop.
const Size kSizes[] = {{1, 1, 1},     {6, 16, 8},     {7, 17, 9},    {5, 31, 300},
                       {150, 33, 19}, {96, 128, 512}, {301, 97, 270}};

TEST(Gemm, HandlesEverySizeAndLayoutByPanels) {
  for (const GemmKernels* kernels : kernels_of_this_cpu()) {
    for (const Size& s : kSizes) {
      for (const DType type : {DType::kF32, DType::kBF16}) {
        for (const Case& c : kinds(s.m, s.n, s.k, type))
          EXPECT_LE(run(c, *kernels, product_by_panels, s.m > 100 ? 3 : 1).error, 1) << described(c, *kernels, s.m > 100 ? 3 : 1);
      }
    }
  }
}

TEST(Gemm, WalksADepthThatDoesNotFitTheCacheInSteps) {
  const GemmKernels& kernels = *kernels_of_this_cpu().back();
  for (const Case& c : kinds(21, 770, 6000, DType::kBF16)) {
    EXPECT_LE(run(c, kernels, product_by_panels, 2).error, 1) << described(c, kernels, 2);
  }
  const Case deep{2100, 70, 40000, false, false, DType::kBF16, DType::kBF16, true, true, true, false};
  EXPECT_LE(run(deep, kernels, product_by_panels, 2).error, 1) << described(deep, kernels, 2);
}

TEST(Gemm, HandlesEverySizeAndLayoutOfFewRows) {
  for (const GemmKernels* kernels : kernels_of_this_cpu()) {
    for (std::int64_t m = 1; m <= kFewRowsMost; ++m) {
      for (const DType type : {DType::kF32, DType::kBF16}) {
        for (const Case& c : kinds(m, 67, 75, type)) {
          if (c.accumulate) continue;
          EXPECT_LE(run(c, *kernels, product_by_few_rows, 2).error, 1) << described(c, *kernels, 2);
        }
      }
    }
  }
}

TEST(Gemm, HandlesEverySizeAndLayoutByOneDnn) {
  const GemmKernels& kernels = *kernels_of_this_cpu().back();
  for (const Size& s : kSizes) {
    for (const Case& c : kinds(s.m, s.n, s.k, DType::kF32)) {
      EXPECT_LE(run(c, kernels, product_chosen, 2).error, 1) << described(c, kernels, 2);
      EXPECT_LE(run(c, kernels, product_by_primitives, 2).error, 1) << described(c, kernels, 2);
    }
    if (!onednn_multiplies_bf16()) continue;
    for (const Case& c : kinds(s.m, s.n, s.k, DType::kBF16)) {
      EXPECT_LE(run(c, kernels, product_chosen, 2).error, 1) << described(c, kernels, 2);
    }
  }
}

// Where the CPU has AMX: one more or less than whole tiles in every direction, for which oneDNN was seen to end the process.
TEST(Gemm, HandlesEveryEdgeOfTilesInBf16) {
  const GemmKernels& kernels = *kernels_of_this_cpu().back();
  for (const std::int64_t k : {31, 32, 33, 62, 63, 65, 95, 97, 128, 191}) {
    for (const std::int64_t m : {17, 64, 65, 97}) {
      for (const std::int64_t n : {16, 17, 33, 49, 80}) {
        for (const Case& c : kinds(m, n, k, DType::kBF16)) {
          EXPECT_LE(run(c, kernels, product_chosen, 1).error, 1) << described(c, kernels, 1);
        }
      }
    }
  }
}

// Law 9: the same thread count gives the same bits; the panels give them for any thread count.
TEST(Gemm, GivesTheSameBitsTwice) {
  const GemmKernels& kernels = *kernels_of_this_cpu().back();
  for (const DType type : {DType::kF32, DType::kBF16}) {
    for (const Case& c : kinds(130, 200, 400, type)) {
      EXPECT_EQ(run(c, kernels, product_chosen, 3, false).bytes, run(c, kernels, product_chosen, 3, false).bytes);
      EXPECT_EQ(run(c, kernels, product_by_panels, 1, false).bytes, run(c, kernels, product_by_panels, 5, false).bytes);
    }
  }
}

TEST(GemmGrid, CoversTheOutputOnce) {
  for (const int members : {1, 2, 3, 6, 16}) {
    for (const std::int64_t m : {1, 6, 50, 2048}) {
      for (const std::int64_t n : {1, 17, 768, 50304}) {
        const GemmGrid grid = GemmGrid::of(m, n, 6, 16, members);
        EXPECT_EQ(grid.rows * grid.columns, members);
        std::int64_t covered = 0;
        for (int i = 0; i < members; ++i) {
          const auto rows = GemmGrid::part(m, 6, i / grid.columns, grid.rows);
          const auto columns = GemmGrid::part(n, 16, i % grid.columns, grid.columns);
          covered += (rows.end - rows.begin) * (columns.end - columns.begin);
        }
        EXPECT_EQ(covered, m * n);
      }
    }
  }
}

// The plan asks for the loss head's scratch without knowing a filling: its formula must hold what the cpu's
// products take.
TEST(CrossEntropyScratch, CoversTheProducts) {
  for (const GemmKernels* kernels :
       {&gemm_kernels<Isa::kBaseline>(), &gemm_kernels<Isa::kAvx2>(), &gemm_kernels<Isa::kAvx512>()}) {
    for (const int threads : {1, 2, 16, 64}) {
      for (const std::int64_t chunk : {1, 8, 33, 512, 4096}) {
        for (const std::int64_t vocabulary : {1, 100, 2730, 50304, 152064}) {
          for (const std::int64_t channels : {1, 64, 768, 4097, 8192}) {
            const std::int64_t rows = (chunk + 31) / 32 * 32;
            const std::int64_t held = rows * (4 * vocabulary + 8 * channels + 8) + 4 * 64;
            const std::int64_t products =
                std::max({gemm_scratch_bytes(*kernels, rows, vocabulary, channels, threads, DType::kF32),
                          gemm_scratch_bytes(*kernels, rows, channels, vocabulary, threads),
                          gemm_scratch_bytes(*kernels, vocabulary, channels, rows, threads, DType::kF32),
                          gemm_scratch_bytes(*kernels, chunk, vocabulary, channels, threads, DType::kF32),
                          gemm_scratch_bytes(*kernels, chunk, channels, vocabulary, threads)});
            ASSERT_LE(held + products, cross_entropy_scratch_bytes(chunk, vocabulary, channels, threads))
                << "threads " << threads << " chunk " << chunk << " vocabulary " << vocabulary << " channels "
                << channels;
          }
        }
      }
    }
  }
}

TEST(GemmDeathTest, RefusesScratchThatIsTooSmall) {
  const GemmKernels& kernels = *kernels_of_this_cpu().back();
  float a[64] = {}, b[64] = {}, y[64] = {};
  device::ThreadTeam team(1);
  device::StreamContext context{team, nullptr, 0};
  const Gemm g{.m = 8,
               .n = 8,
               .k = 8,
               .a = {a, DType::kF32, 8, false},
               .b = {b, DType::kF32, 8, false},
               .c = {.data = y, .type = DType::kF32, .stride = 8}};
  EXPECT_DEATH(gemm_by(GemmPath::kPanels, kernels, context, g), "bytes of scratch");
}

}  // namespace
}  // namespace troupe::kernels::cpu
