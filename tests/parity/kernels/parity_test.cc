// Every filling against ref in double: tables x ops x sizes x types, with the tolerances of
// kernels/tolerance.h. ref itself is one of the tables: its fp32 and bf16 storage against its fp64 one.
#include <gtest/gtest.h>

#include <set>

#include "kernels/ref/element.h"
#include "kernels/ref/ref.h"
#include "tests/parity/kernels/bench.h"
#include "tests/parity/kernels/cases.h"
#ifdef TROUPE_PARITY_CPU
#include "kernels/cpu/cpu.h"
#endif

namespace troupe::kernels::parity {
namespace {

const std::vector<std::string> kOps{
#define TROUPE_PARITY_NAME(member, Op) #member,
    TROUPE_KERNELS(TROUPE_PARITY_NAME)
#undef TROUPE_PARITY_NAME
};

std::map<std::string, const Table*> tables() {
  return {
      {"ref", &ref::table()},
#ifdef TROUPE_PARITY_CPU
      {"cpu", &cpu::table()},
#endif
  };
}

std::vector<std::string> table_names() {
  std::vector<std::string> names;
  for (const auto& [name, table] : tables()) names.push_back(name);
  return names;
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const auto& cases : {matmul_cases(), norm_cases(), qk_cases(), attention_cases(), activation_cases(),
                            vocabulary_cases(), elementwise_cases(), optimizer_cases()}) {
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

class KernelParity : public testing::TestWithParam<std::tuple<std::string, std::string, DType>> {
 protected:
  static void SetUpTestSuite() {
    bench_ = std::make_unique<Bench>();
    cases_ = all_cases();
  }
  static void TearDownTestSuite() { bench_.reset(); }

  const Table& table() const { return *tables().at(std::get<0>(GetParam())); }
  DType type() const { return std::get<2>(GetParam()); }
  std::vector<const Case*> cases() const {
    std::vector<const Case*> mine;
    for (const Case& c : cases_) {
      if (c.op == std::get<1>(GetParam()) && c.only.value_or(type()) == type()) mine.push_back(&c);
    }
    return mine;
  }

  static std::unique_ptr<Bench> bench_;
  static std::vector<Case> cases_;
};
std::unique_ptr<Bench> KernelParity::bench_;
std::vector<Case> KernelParity::cases_;

constexpr Placement kAligned{.threads = 1, .shift_elements = 0}, kShifted{.threads = 3, .shift_elements = 1};

TEST_P(KernelParity, AgreesWithTheReferenceOnAnyTeamAtAnyElement) {
  for (const Case* c : cases()) {
    SCOPED_TRACE(c->op + " " + c->name);
    const Numbers inputs = bench_->inputs(*c, type()), truth = bench_->reference(*c, type(), inputs);
    for (const Placement placement : {kAligned, kShifted}) {
      const Outcome got = bench_->run(*c, table(), type(), inputs, placement);
      for (const Field& field : c->fields) {
        if (field.role == Role::kInput) continue;
        std::vector<double> expected = truth.at(field.name);
        if (c->exact) {
          for (double& value : expected) value = ref::round_to(declared_type(field, type()), value);
        }
        const double allowed = c->exact ? 0 : of(field.tolerance.value_or(c->tolerance), type());
        EXPECT_LE(error(got.outputs.at(field.name), expected), allowed)
            << field.name << " " << field.shape.to_string() << ", threads " << placement.threads << ", shift "
            << placement.shift_elements;
      }
    }
  }
}

TEST_P(KernelParity, GivesTheSameBitsAgain) {
  for (const Case* c : cases()) {
    SCOPED_TRACE(c->op + " " + c->name);
    const Numbers inputs = bench_->inputs(*c, type());
    const Outcome first = bench_->run(*c, table(), type(), inputs, kShifted);
    EXPECT_EQ(first.bytes, bench_->run(*c, table(), type(), inputs, kShifted).bytes);
    if (!c->same_bits_for_any_threads) continue;
    for (const int threads : {1, 2, 4}) {
      EXPECT_EQ(first.bytes,
                bench_->run(*c, table(), type(), inputs, {.threads = threads, .shift_elements = 1}).bytes)
          << threads << " threads";
    }
  }
}

TEST_P(KernelParity, WritesNothingButItsOutputs) {
  for (const Case* c : cases()) {
    const Numbers inputs = bench_->inputs(*c, type());
    for (const Placement placement : {kAligned, kShifted}) {
      EXPECT_EQ(bench_->run(*c, table(), type(), inputs, placement).stray_writes, std::vector<std::string>{})
          << c->op << " " << c->name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, KernelParity,
                         testing::Combine(testing::ValuesIn(table_names()), testing::ValuesIn(kOps),
                                          testing::Values(DType::kF32, DType::kBF16)),
                         [](const auto& instance) {
                           return std::get<0>(instance.param) + "_" + std::get<1>(instance.param) + "_" +
                                  std::string(device::name(std::get<2>(instance.param)));
                         });

TEST(KernelCases, CoverEveryOp) {
  std::set<std::string> covered;
  for (const Case& c : all_cases()) covered.insert(c.op);
  EXPECT_EQ(covered, std::set<std::string>(kOps.begin(), kOps.end()));
}

// The tests above would pass on a filling that does nothing if these did not hold.
TEST(KernelBench, SeesAStrayWriteAMissingWriteAndAWrongValue) {
  Case c{.op = "fill", .name = "", .call = {}};
  c.input("x", {7}).output("y", {7});
  Bench bench;
  const Numbers inputs = bench.inputs(c, DType::kF32);
  c.call = [](const Table&, Stream&, const Tensors&) {};
  EXPECT_EQ(error(bench.run(c, ref::table(), DType::kF32, inputs, kAligned).outputs["y"],
                  std::vector<double>(7, 1.0)),
            std::numeric_limits<double>::infinity());
  c.call = [](const Table&, Stream&, const Tensors& t) {
    t["x"].data<float>()[3] = 0;
    t["y"].data<float>()[7] = 0;
  };
  EXPECT_EQ(bench.run(c, ref::table(), DType::kF32, inputs, kShifted).stray_writes,
            (std::vector<std::string>{"into input x", "beside y"}));
  EXPECT_DOUBLE_EQ(error({1, 2, 4.5}, {1, 2, 5}), 0.1);
}

}  // namespace
}  // namespace troupe::kernels::parity
