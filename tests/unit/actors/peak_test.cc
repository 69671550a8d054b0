#include "actors/train/peak.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace troupe::test {
namespace {

std::atomic<int> products = 0;

// The first ones while others have the machine, each as long as all of the measurement should take.
kernels::Table disturbed_at_first(int disturbed) {
  static int slow = 0;
  slow = disturbed;
  products = 0;
  kernels::Table table;
  table.matmul_scratch_bytes = [](std::int64_t, std::int64_t, std::int64_t, device::DType, int) -> std::int64_t { return 64; };
  table.matmul = [](device::Stream& stream, const kernels::Matmul&) {
    stream.enqueue([](device::StreamContext&) { std::this_thread::sleep_for(std::chrono::milliseconds(++products <= slow ? 310 : 1)); });
  };
  return table;
}

// It was an MFU of 15207 % once.
TEST(Peak, IsMeasuredOnAMachineThatIsTakenAtFirst) {
  const double undisturbed = actors::measure_matmul_peak(disturbed_at_first(0), device::DType::kF32, 1);
  EXPECT_GT(products, 8);
  const double disturbed = actors::measure_matmul_peak(disturbed_at_first(3), device::DType::kF32, 1);
  EXPECT_GE(products, 8);
  EXPECT_GT(disturbed, undisturbed / 50);  // 1 of 310 when the first was all there was
}

}  // namespace
}  // namespace troupe::test
