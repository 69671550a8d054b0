// Which instruction set is taken, and what a wrong wish is answered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/cpu/cpu.h"

namespace troupe::kernels::cpu {
namespace {

using testing::HasSubstr;

TEST(CpuIsa, TakesTheWidestWhereNothingIsAsked) {
  for (const Isa widest : kAllIsas) {
    EXPECT_EQ(choose_isa(nullptr, widest).value(), widest);
    EXPECT_EQ(choose_isa("", widest).value(), widest);
  }
}

TEST(CpuIsa, IsLoweredByName) {
  for (const Isa widest : kAllIsas) {
    for (const Isa wanted : kAllIsas) {
      const auto got = choose_isa(name(wanted), widest);
      if (wanted <= widest) {
        EXPECT_EQ(got.value(), wanted);
      } else {
        EXPECT_EQ(got.status().code(), absl::StatusCode::kFailedPrecondition);
      }
    }
  }
}

TEST(CpuIsa, RefusesWhatTheProcessorHasNot) {
  const auto got = choose_isa("avx512", Isa::kAvx2);
  EXPECT_THAT(std::string(got.status().message()),
              HasSubstr("TROUPE_CPU_ISA=avx512: this processor has no avx512, its widest is avx2"));
}

TEST(CpuIsa, RefusesAnUnknownName) {
  for (const char* wanted : {"sse", "AVX2", "avx2 ", "native"}) {
    const auto got = choose_isa(wanted, Isa::kAvx2);
    EXPECT_EQ(got.status().code(), absl::StatusCode::kInvalidArgument) << wanted;
    EXPECT_THAT(std::string(got.status().message()), HasSubstr(std::string("TROUPE_CPU_ISA=") + wanted));
    EXPECT_THAT(std::string(got.status().message()), HasSubstr("baseline, avx2 or avx512"));
  }
}

TEST(CpuIsa, IsReadFromTheEnvironment) {
  const char* before = std::getenv("TROUPE_CPU_ISA");
  const std::string kept = before ? before : "";
  setenv("TROUPE_CPU_ISA", "baseline", 1);
  EXPECT_EQ(isa_from_environment().value(), Isa::kBaseline);
  setenv("TROUPE_CPU_ISA", "mmx", 1);
  EXPECT_EQ(isa_from_environment().status().code(), absl::StatusCode::kInvalidArgument);
  before ? setenv("TROUPE_CPU_ISA", kept.c_str(), 1) : unsetenv("TROUPE_CPU_ISA");
}

TEST(CpuTable, IsNamedAfterItsInstructionSet) {
  EXPECT_STREQ(table_for(Isa::kBaseline).name, "cpu/baseline");
  EXPECT_STREQ(table_for(Isa::kAvx2).name, "cpu/avx2");
  EXPECT_STREQ(table_for(Isa::kAvx512).name, "cpu/avx512");
}

TEST(CpuTable, IsOfTheChosenInstructionSet) {
  EXPECT_EQ(&table(), &table_for(isa_from_environment().value()));
  EXPECT_EQ(&table(), &table());
}

TEST(CpuTableDeathTest, DiesOfAWrongWishWithTheWholeMessage) {
  EXPECT_DEATH(
      {
        setenv("TROUPE_CPU_ISA", "mmx", 1);
        table();
      },
      "TROUPE_CPU_ISA=mmx: unknown instruction set");
}

}  // namespace
}  // namespace troupe::kernels::cpu
