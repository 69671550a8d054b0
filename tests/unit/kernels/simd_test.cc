// The vector functions of every instruction set this machine has, against <cmath> in double.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cpu/cpu.h"
#include "runtime/base/rng.h"
#include "tests/unit/kernels/simd_probe.h"

namespace troupe::kernels::cpu {
namespace {

using device::bfloat16;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kDenormal = std::numeric_limits<float>::denorm_min();
constexpr float kTiny = std::numeric_limits<float>::min();
constexpr float kHuge = std::numeric_limits<float>::max();

class Simd : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (GetParam() > widest_isa()) {
      GTEST_SKIP() << "this processor has no " << name(GetParam()) << ", its widest is "
                   << name(widest_isa());
    }
    probe_ = GetParam() == Isa::kBaseline ? make_simd_probe<Isa::kBaseline>()
             : GetParam() == Isa::kAvx2   ? make_simd_probe<Isa::kAvx2>()
                                          : make_simd_probe<Isa::kAvx512>();
  }
  std::vector<float> apply(void (*function)(float*, const float*, std::int64_t),
                           const std::vector<float>& x) const {
    std::vector<float> y(x.size(), -1.0f);
    function(y.data(), x.data(), static_cast<std::int64_t>(x.size()));
    return y;
  }
  SimdProbe probe_;
};

// Evenly over [low, high], and floats of every exponent and random bits, both signs, that lie in it.
std::vector<float> points(double low, double high) {
  std::vector<float> x;
  for (int i = 0; i <= 200000; ++i) x.push_back(static_cast<float>(low + (high - low) * i / 200000));
  const RandomStream random(RandomKey{.seed = 5});
  for (std::uint64_t i = 0; i < 400000; ++i) {
    const float value = std::bit_cast<float>(random.at(i));
    if (static_cast<double>(value) >= low && static_cast<double>(value) <= high) x.push_back(value);
  }
  for (const float value : {0.0f, -0.0f, kDenormal, -kDenormal, kTiny, -kTiny}) {
    if (static_cast<double>(value) >= low && static_cast<double>(value) <= high) x.push_back(value);
  }
  return x;
}

// Distance in units in the last place of the fp32 number nearest to the truth.
double ulps(float got, double truth) {
  const auto rounded = static_cast<float>(truth);
  if (std::isnan(truth)) return std::isnan(got) ? 0 : HUGE_VAL;
  if (std::isinf(rounded)) return got == rounded ? 0 : HUGE_VAL;
  const double unit = std::max(static_cast<double>(std::nextafter(std::fabs(rounded), kInfinity)) -
                                   static_cast<double>(std::fabs(rounded)),
                               static_cast<double>(kDenormal));
  return std::fabs(static_cast<double>(got) - truth) / unit;
}

template <class Truth>
void expect_within(double limit, const std::vector<float>& x, const std::vector<float>& y, Truth truth) {
  double worst = 0;
  float at = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = ulps(y[i], truth(static_cast<double>(x[i])));
    if (error > worst) worst = error, at = x[i];
  }
  EXPECT_LE(worst, limit) << "at " << at;
}

TEST_P(Simd, ExpIsWithinTwoUlp) {
  const auto x = points(-110, 89.5);
  expect_within(2, x, apply(probe_.exp, x), [](double v) { return std::exp(v); });
  const auto y =
      apply(probe_.exp, {kInfinity, -kInfinity, kNan, 88.8f, -104.1f, -87.5f, 0.0f, -0.0f, kHuge, -kHuge});
  EXPECT_EQ(y[0], kInfinity);
  EXPECT_EQ(y[1], 0.0f);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], kInfinity);
  EXPECT_EQ(y[4], 0.0f);
  EXPECT_GT(y[5], 0.0f);
  EXPECT_LT(y[5], kTiny);  // a denormal
  EXPECT_EQ(y[6], 1.0f);
  EXPECT_EQ(y[7], 1.0f);
  EXPECT_EQ(y[8], kInfinity);
  EXPECT_EQ(y[9], 0.0f);
}

TEST_P(Simd, ExpWithinStaysWithinItsBounds) {
  const auto x = points(-87, 88);
  expect_within(2, x, apply(probe_.exp_within, x), [](double v) { return std::exp(v); });
  const auto y = apply(probe_.exp_within, {kInfinity, -kInfinity, kNan, 88.0f, -87.0f, 1000.0f, -1000.0f});
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[0], y[3]);
  EXPECT_EQ(y[1], y[4]);
  EXPECT_EQ(y[5], y[3]);
  EXPECT_EQ(y[6], y[4]);
  EXPECT_LT(y[3], kInfinity);
  EXPECT_GE(y[4], kTiny);
}

TEST_P(Simd, TanhIsWithinTwoUlp) {
  for (const double limit : {0.7, 12.0, 1e30}) {
    const auto x = points(-limit, limit);
    expect_within(2, x, apply(probe_.tanh, x), [](double v) { return std::tanh(v); });
  }
  const auto y = apply(probe_.tanh, {kInfinity, -kInfinity, kNan, 0.0f, -0.0f});
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], -1.0f);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(std::bit_cast<std::uint32_t>(y[3]), 0u);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(y[4]), 0x80000000u);
}

TEST_P(Simd, ErfIsWithinTwoUlp) {
  for (const double limit : {1.1, 5.0, 1e30}) {
    const auto x = points(-limit, limit);
    expect_within(2, x, apply(probe_.erf, x), [](double v) { return std::erf(v); });
  }
  const auto y = apply(probe_.erf, {kInfinity, -kInfinity, kNan, 0.0f, -0.0f});
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], -1.0f);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(std::bit_cast<std::uint32_t>(y[3]), 0u);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(y[4]), 0x80000000u);
}

TEST_P(Simd, SineAndCosineHoldForLongPositions) {
  for (const double limit : {4.0, 1e4, 1e6, 1e8}) {
    const auto x = points(-limit, limit);
    const auto sine = apply(probe_.sine, x), cosine = apply(probe_.cosine, x);
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      worst = std::max(worst, std::fabs(static_cast<double>(sine[i]) - std::sin(static_cast<double>(x[i]))));
      worst =
          std::max(worst, std::fabs(static_cast<double>(cosine[i]) - std::cos(static_cast<double>(x[i]))));
    }
    EXPECT_LE(worst, 2 * 0x1p-24) << "up to " << limit;
  }
  EXPECT_TRUE(std::isnan(apply(probe_.sine, {kNan})[0]));
  EXPECT_TRUE(std::isnan(apply(probe_.cosine, {kInfinity})[0]));
}

TEST_P(Simd, RootAndReciprocalAreCorrectlyRounded) {
  const auto x = points(0, 3e38);
  const auto root = apply(probe_.sqrt, x), inverse = apply(probe_.reciprocal, x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(root[i], std::sqrt(x[i])) << x[i];
    ASSERT_EQ(inverse[i], 1.0f / x[i]) << x[i];
  }
}

TEST_P(Simd, RoundsToBfloat16AsTheTypeDoes) {
  std::vector<float> x{0.0f,  -0.0f,     kInfinity, -kInfinity, kNan,
                       -kNan, kDenormal, kHuge,     -kHuge,     std::bit_cast<float>(0x7f800001u)};
  for (std::uint32_t high = 0; high < 0x10000;
       ++high) {  // halfway, just above and just below, next to every value there is
    for (const std::uint32_t low : {0x0000u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      x.push_back(std::bit_cast<float>(high << 16 | low));
  }
  std::vector<bfloat16> y(x.size());
  probe_.narrow(y.data(), x.data(), static_cast<std::int64_t>(x.size()));
  const auto in_place = apply(probe_.round_to_bf16, x);
  std::vector<float> back(x.size());
  probe_.widen(back.data(), y.data(), static_cast<std::int64_t>(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bfloat16 expected(x[i]);
    ASSERT_EQ(y[i].bits, expected.bits) << std::hex << std::bit_cast<std::uint32_t>(x[i]);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(in_place[i]), static_cast<std::uint32_t>(expected.bits) << 16);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(back[i]), static_cast<std::uint32_t>(expected.bits) << 16);
  }
}

// Pages without any rights before and after the memory: an access beside it kills the test.
class Fenced {
 public:
  explicit Fenced(std::size_t bytes) : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))), bytes_(bytes) {
    inner_ = (bytes + page_ - 1) / page_ * page_;
    base_ = static_cast<std::byte*>(
        mmap(nullptr, inner_ + 2 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(base_, MAP_FAILED);
    EXPECT_EQ(mprotect(base_ + page_, inner_, PROT_READ | PROT_WRITE), 0);
  }
  ~Fenced() { munmap(base_, inner_ + 2 * page_); }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;
  template <class T>
  T* front() {
    return reinterpret_cast<T*>(base_ + page_);
  }
  template <class T>
  T* back() {
    return reinterpret_cast<T*>(base_ + page_ + inner_ - bytes_);
  }

 private:
  std::size_t page_, bytes_, inner_;
  std::byte* base_;
};

template <class T, class Copy>
void expect_tails_inside(Copy copy, int lanes) {
  for (std::size_t n = 0; n <= static_cast<std::size_t>(4 * lanes + 1); ++n) {
    const std::size_t bytes = n * sizeof(T);
    Fenced from(bytes), to(bytes);
    for (const bool at_back : {false, true}) {
      T* x = at_back ? from.back<T>() : from.front<T>();
      T* y = at_back ? to.back<T>() : to.front<T>();
      for (std::size_t i = 0; i < n; ++i) x[i] = T(static_cast<float>(i + 1));
      copy(y, x, static_cast<std::int64_t>(n));
      EXPECT_EQ(n ? std::memcmp(x, y, bytes) : 0, 0) << n << " elements of " << sizeof(T) << " bytes";
    }
  }
}

TEST_P(Simd, TailsTouchNothingBeside) {
  expect_tails_inside<float>(probe_.copy, probe_.lanes);
  expect_tails_inside<bfloat16>(probe_.copy_bf16, probe_.lanes);
}

TEST_P(Simd, TailsWriteNothingBeyondTheirCount) {
  for (std::int64_t n = 0; n <= 2 * probe_.lanes; ++n) {
    std::vector<float> x(64, 1.0f), y(64, 7.0f);
    std::vector<bfloat16> narrow(64, bfloat16(7.0f));
    probe_.copy(y.data(), x.data(), n);
    probe_.narrow(narrow.data(), x.data(), n);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const float expected = static_cast<std::int64_t>(i) < n ? 1.0f : 7.0f;
      EXPECT_EQ(y[i], expected);
      EXPECT_EQ(static_cast<float>(narrow[i]), expected);
    }
  }
}

TEST(FencedDeathTest, KillsAnAccessBeside) {
  Fenced memory(8);
  volatile float* x = memory.back<float>();
  x[1] = 1;
  EXPECT_DEATH(x[2] = 1, "");
}

TEST_P(Simd, FoldsLanesInAFixedOrder) {
  std::vector<float> x(static_cast<std::size_t>(probe_.lanes));
  const RandomStream random(RandomKey{.seed = 9});
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(random.normal(i));
  std::vector<float> folded = x;
  for (std::size_t half = folded.size() / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) folded[i] += folded[i + half];
  }
  EXPECT_EQ(probe_.sum(x.data()), folded[0]);
  EXPECT_EQ(probe_.largest(x.data()), *std::max_element(x.begin(), x.end()));
  const std::vector<float> ones(x.size(), 1.0f);
  for (int count = 1; count < probe_.lanes; ++count)
    EXPECT_EQ(probe_.sum_kept(ones.data(), count), static_cast<float>(count));
}

INSTANTIATE_TEST_SUITE_P(Isas, Simd, testing::ValuesIn(kAllIsas),
                         [](const auto& instance) { return std::string(name(instance.param)); });

}  // namespace
}  // namespace troupe::kernels::cpu
