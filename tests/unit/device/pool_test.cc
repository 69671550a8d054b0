#include "runtime/device/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/device/allocator.h"

namespace troupe::device {
namespace {

using testing::Each;

std::int64_t held_by(const BufferPool& pool, const std::string& term) {
  const auto by_term = pool.bytes_by_term();
  const auto at = by_term.find(term);
  return at == by_term.end() ? 0 : at->second;
}

TEST(BufferPool, CountsTakes) {
  BufferPool pool(4096);
  EXPECT_EQ(pool.takes(), 0);
  for (int i = 0; i < 10; ++i) pool.take("workspace", 64);
  const Buffer kept = pool.take("weights", 64);
  const Buffer shared = kept;  // no take
  EXPECT_EQ(pool.takes(), 11);
}

TEST(BufferPool, CountsBytesInUseAndTheirPeak) {
  BufferPool pool(4096);
  EXPECT_EQ(pool.capacity_bytes(), 4096);
  Buffer first = pool.take("a", 1024);
  Buffer second = pool.take("a", 2048);
  EXPECT_EQ(pool.used_bytes(), 3072);
  first = {};
  EXPECT_EQ(pool.used_bytes(), 2048);
  second = {};
  const Buffer third = pool.take("a", 512);
  EXPECT_EQ(pool.used_bytes(), 512);
  EXPECT_EQ(pool.peak_bytes(), 3072);
}

TEST(BufferPool, TellsWhatEachTermHolds) {
  BufferPool pool(4096);
  Buffer weights = pool.take("weights", 256);
  Buffer more_weights = pool.take("weights", 128);
  const Buffer edges = pool.take("edges", 64);
  EXPECT_EQ(held_by(pool, "weights"), 384);
  EXPECT_EQ(held_by(pool, "edges"), 64);
  EXPECT_EQ(held_by(pool, "optimizer"), 0);
  weights = {};
  EXPECT_EQ(held_by(pool, "weights"), 128);
  more_weights = {};
  EXPECT_EQ(held_by(pool, "weights"), 0);
  EXPECT_EQ(held_by(pool, "edges"), 64);
}

TEST(BufferPool, RoundsWhatATakeCosts) {
  EXPECT_EQ(BufferPool::rounded(0), 0);
  EXPECT_EQ(BufferPool::rounded(1), 64);
  EXPECT_EQ(BufferPool::rounded(64), 64);
  EXPECT_EQ(BufferPool::rounded(65), 128);
  BufferPool pool(256);
  const Buffer buffer = pool.take("a", 65);
  EXPECT_EQ(buffer.bytes(), 65);
  EXPECT_EQ(pool.used_bytes(), 128);
}

TEST(BufferPool, GivesAlignedBytesThatDoNotOverlap) {
  BufferPool pool(1 << 16);
  std::vector<Buffer> buffers;
  for (std::int64_t bytes = 1; bytes < 200; bytes += 13) {
    buffers.push_back(pool.take("a", bytes));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffers.back().data()) % 64, 0u) << bytes;
    EXPECT_EQ(buffers.back().bytes(), bytes);
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    std::fill_n(buffers[i].data(), buffers[i].bytes(), static_cast<std::byte>(i));
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const std::vector<std::byte> read(buffers[i].data(), buffers[i].data() + buffers[i].bytes());
    EXPECT_THAT(read, Each(static_cast<std::byte>(i)));
  }
}

TEST(BufferPool, TakesTheFirstHoleThatFits) {
  BufferPool pool(1024);
  Buffer wide = pool.take("a", 128);
  const Buffer between = pool.take("a", 64);
  Buffer narrow = pool.take("a", 64);
  const Buffer after = pool.take("a", 64);
  std::byte* const start = wide.data();
  std::byte* const second_hole = narrow.data();
  wide = {};
  narrow = {};
  const Buffer first = pool.take("a", 64);  // the narrow hole would fit better, but comes later
  EXPECT_EQ(first.data(), start);
  const Buffer rest = pool.take("a", 64);
  EXPECT_EQ(rest.data(), start + 64);
  const Buffer last = pool.take("a", 64);
  EXPECT_EQ(last.data(), second_hole);
}

TEST(BufferPool, PassesOverAHoleThatIsTooSmall) {
  BufferPool pool(1024);
  Buffer hole = pool.take("a", 64);
  const Buffer between = pool.take("a", 64);
  std::byte* const start = hole.data();
  hole = {};
  const Buffer large = pool.take("a", 128);
  EXPECT_EQ(large.data(), between.data() + 64);
  const Buffer small = pool.take("a", 64);
  EXPECT_EQ(small.data(), start);
}

TEST(BufferPool, MergesNeighboursInWhateverOrderTheyComeBack) {
  std::array<std::size_t, 3> order = {0, 1, 2};
  do {
    BufferPool pool(192);
    std::array<Buffer, 3> buffers;
    for (auto& buffer : buffers) buffer = pool.take("a", 64);
    std::byte* const start = buffers[0].data();
    for (const std::size_t i : order) buffers[i] = {};
    const Buffer whole = pool.take("a", 192);
    EXPECT_EQ(whole.data(), start);
    EXPECT_EQ(pool.used_bytes(), 192);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(BufferPool, GivesOutItsWholeCapacity) {
  BufferPool pool(256);
  std::vector<Buffer> buffers;
  for (int i = 0; i < 4; ++i) buffers.push_back(pool.take("a", 64));
  EXPECT_EQ(pool.used_bytes(), pool.capacity_bytes());
}

TEST(BufferPool, HasItsMemoryFromTheStart) {
  constexpr std::int64_t kBytes = 1 << 20;
  BufferPool pool(kBytes);
  const Buffer whole = pool.take("a", kBytes);
  const auto page = static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
  ASSERT_EQ(reinterpret_cast<std::uintptr_t>(whole.data()) % static_cast<std::uintptr_t>(page), 0u);
  std::vector<unsigned char> pages(static_cast<std::size_t>((kBytes + page - 1) / page));
  ASSERT_EQ(mincore(whole.data(), static_cast<std::size_t>(kBytes), pages.data()), 0);
  const auto resident =
      std::count_if(pages.begin(), pages.end(), [](unsigned char bits) { return (bits & 1) != 0; });
  EXPECT_EQ(resident, static_cast<std::ptrdiff_t>(pages.size()));
}

TEST(BufferPool, IsTakenFromByManyThreads) {
  BufferPool pool(4 * 64);
  std::vector<std::thread> threads;
  for (int from = 0; from < 4; ++from) {
    threads.emplace_back([&pool, from] {
      for (int i = 0; i < 500; ++i) {
        const Buffer buffer = pool.take("a", 64);
        std::fill_n(buffer.data(), 64, static_cast<std::byte>(from));
        EXPECT_EQ(std::count(buffer.data(), buffer.data() + 64, static_cast<std::byte>(from)), 64);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(pool.takes(), 2000);
  EXPECT_EQ(pool.used_bytes(), 0);
  const Buffer whole = pool.take("a", 4 * 64);  // all merged again
}

TEST(BufferPool, DiesOfATakeBeyondTheArenaAndSaysWhoHoldsIt) {
  BufferPool pool(1024);
  const Buffer weights = pool.take("weights", 704);
  const Buffer edges = pool.take("edges", 128);
  EXPECT_DEATH(pool.take("gradients", 320), "320.*gradients.*edges=128.*weights=704");
}

TEST(BufferPool, DiesOfATakeThatNoSingleHoleHolds) {
  BufferPool pool(192);
  Buffer first = pool.take("a", 64);
  const Buffer middle = pool.take("a", 64);
  EXPECT_DEATH(pool.take("b", 128), "128 bytes of 'b'");
  first = {};  // 128 bytes are free now, but apart
  EXPECT_DEATH(pool.take("b", 128), "128 bytes of 'b'");
}

TEST(BufferPool, DiesWhenABufferIsNotBackAtItsEnd) {
  const auto outlived = [] {
    Buffer buffer;
    BufferPool pool(128);
    buffer = pool.take("a", 64);
  };
  EXPECT_DEATH(outlived(), "still held");
}

TEST(Buffer, IsEmptyByDefault) {
  const Buffer buffer;
  EXPECT_FALSE(static_cast<bool>(buffer));
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_EQ(buffer.bytes(), 0);
}

TEST(Buffer, GoesBackWhenItsLastHandleDies) {
  BufferPool pool(128);
  Buffer first = pool.take("a", 64);
  Buffer second = first;
  EXPECT_EQ(second.data(), first.data());
  first = {};
  EXPECT_EQ(pool.used_bytes(), 64);
  {
    const Buffer third = std::move(second);
    EXPECT_FALSE(static_cast<bool>(second));  // NOLINT: that is what is asked
    EXPECT_EQ(pool.used_bytes(), 64);
  }
  EXPECT_EQ(pool.used_bytes(), 0);
}

// What the plan predicts is what the run takes.
TEST(Allocator, CountsWhatThePoolTakes) {
  const auto takes = [](Allocator& from) {
    std::vector<Tensor> tensors;
    tensors.push_back(from.take("weights", DType::kF32, {3, 5}));
    tensors.push_back(from.take("weights", DType::kBF16, {7}));
    tensors.push_back(from.take("edges", DType::kU8, {65}));
    tensors.push_back(from.take("loss", DType::kF64, {1}));
    return tensors;
  };
  CountingAllocator counting;
  BufferPool pool(4096);
  PoolAllocator taking(pool);
  const auto counted = takes(counting);
  const auto taken = takes(taking);
  EXPECT_EQ(counting.bytes_by_term(), pool.bytes_by_term());
  EXPECT_EQ(counting.total_bytes(), pool.used_bytes());
  EXPECT_EQ(pool.used_bytes(), 64 + 64 + 128 + 64);
  for (std::size_t i = 0; i < taken.size(); ++i) {
    EXPECT_EQ(counted[i].shape(), taken[i].shape());
    EXPECT_EQ(counted[i].type(), taken[i].type());
    EXPECT_EQ(counted[i].view().raw(), nullptr);
    EXPECT_NE(taken[i].view().raw(), nullptr);
  }
}

TEST(BufferPool, HasRoomForNothingEvenWhenItIsFull) {
  BufferPool pool(BufferPool::kAlignment);
  const Buffer all = pool.take("weights", BufferPool::kAlignment);
  const Buffer nothing = pool.take("gradients", 0);
  EXPECT_EQ(pool.used_bytes(), BufferPool::kAlignment);
}

}  // namespace
}  // namespace troupe::device
