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

// Every filling that runs on this machine: of cpu, each instruction set that the processor has.
std::map<std::string, const Table*> tables() {
  std::map<std::string, const Table*> all{{"ref", &ref::table()}};
#ifdef TROUPE_PARITY_CPU
  for (const auto isa : cpu::kAllIsas) {
    if (isa <= cpu::widest_isa()) all[std::string("cpu_") + cpu::name(isa)] = &cpu::table_for(isa);
  }
#endif
  return all;
}

bool has(const Table& table, const std::string& op) {
#define TROUPE_PARITY_HAS(member, Op) \
  if (op == #member) return table.member != nullptr;
  TROUPE_KERNELS(TROUPE_PARITY_HAS)
#undef TROUPE_PARITY_HAS
  return false;
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

// Tables are the last parameter, the one that changes fastest: they share the inputs and the truth of an
// operation and type.
class KernelParity : public testing::TestWithParam<std::tuple<std::string, DType, std::string>> {
 protected:
  struct Row {
    const Case* row;
    Numbers inputs, truth;
  };

  static void SetUpTestSuite() {
    bench_ = std::make_unique<Bench>();
    cases_ = all_cases();
  }
  static void TearDownTestSuite() {
    rows_.clear();
    bench_.reset();
  }
  void SetUp() override {
    ASSERT_TRUE(has(table(), op())) << "the table has no " << op();
    if (const auto shown = op() + std::string(device::name(type())); shown != rows_of_) {
      rows_.clear();
      rows_of_ = shown;
    }
    if (!rows_.empty()) return;
    for (const Case& c : cases_) {
      if (c.op != op() || c.only.value_or(type()) != type()) continue;
      Row row{&c, bench_->inputs(c, type()), {}};
      row.truth = bench_->reference(c, type(), row.inputs);
      rows_.push_back(std::move(row));
    }
  }

  const std::string& op() const { return std::get<0>(GetParam()); }
  DType type() const { return std::get<1>(GetParam()); }
  const Table& table() const { return *tables().at(std::get<2>(GetParam())); }
  Outcome run(const Row& row, Placement placement) const {
    return bench_->run(*row.row, table(), type(), row.inputs, placement);
  }

  static std::unique_ptr<Bench> bench_;
  static std::vector<Case> cases_;
  static std::vector<Row> rows_;
  static std::string rows_of_;
};
std::unique_ptr<Bench> KernelParity::bench_;
std::vector<Case> KernelParity::cases_;
std::vector<KernelParity::Row> KernelParity::rows_;
std::string KernelParity::rows_of_;

constexpr Placement kAligned{.threads = 1, .shift_elements = 0}, kShifted{.threads = 3, .shift_elements = 1};

TEST_P(KernelParity, AgreesWithTheReferenceAndWritesNothingElse) {
  for (const Row& row : rows_) {
    const Case& c = *row.row;
    SCOPED_TRACE(c.op + " " + c.name);
    for (const Placement placement : {kAligned, kShifted}) {
      const Outcome got = run(row, placement);
      EXPECT_EQ(got.stray_writes, std::vector<std::string>{});
      for (const Field& field : c.fields) {
        if (field.role == Role::kInput) continue;
        std::vector<double> expected = row.truth.at(field.name);
        if (c.exact) {
          for (double& value : expected) value = ref::round_to(declared_type(field, type()), value);
        }
        const double allowed = c.exact ? 0 : of(field.tolerance.value_or(c.tolerance), type());
        EXPECT_LE(error(got.outputs.at(field.name), expected), allowed)
            << field.name << " " << field.shape.to_string() << ", threads " << placement.threads << ", shift "
            << placement.shift_elements;
      }
    }
  }
}

TEST_P(KernelParity, GivesTheSameBitsAgain) {
  for (const Row& row : rows_) {
    SCOPED_TRACE(row.row->op + " " + row.row->name);
    const Outcome first = run(row, kShifted);
    EXPECT_EQ(first.bytes, run(row, kShifted).bytes);
    if (!row.row->same_bits_for_any_threads) continue;
    for (const int threads : {1, 2, 4}) {
      EXPECT_EQ(first.bytes, run(row, {.threads = threads, .shift_elements = 1}).bytes)
          << threads << " threads";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, KernelParity,
                         testing::Combine(testing::ValuesIn(kOps), testing::Values(DType::kF32, DType::kBF16),
                                          testing::ValuesIn(table_names())),
                         [](const auto& instance) {
                           return std::get<0>(instance.param) + "_" +
                                  std::string(device::name(std::get<1>(instance.param))) + "_" +
                                  std::get<2>(instance.param);
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
