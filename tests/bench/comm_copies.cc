#include "tests/bench/comm_copies.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "comm/collective/fold.h"
#include "runtime/base/check.h"
#include "runtime/base/clock.h"

namespace troupe::bench {
namespace {

using comm::CollectiveKind;

constexpr std::int64_t kAwaitMostNs = 30'000'000'000;
constexpr std::array<std::int64_t, 7> kChunkBytes{32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 2 << 20, 64 << 20};
constexpr int kTries = 3;  // of each chunk size; the median counts

void await(const std::atomic<std::int64_t>& counter, std::int64_t value) {
  const SteadyClock clock;
  std::int64_t begin_ns = 0;
  for (std::int64_t spins = 0; counter.load(std::memory_order_acquire) < value; ++spins) {
    if (spins % 4096 != 0) continue;
    if (begin_ns == 0) begin_ns = clock.now_ns();
    TROUPE_CHECK(clock.now_ns() - begin_ns < kAwaitMostNs) << "the other process does not come";
  }
}

}  // namespace

CopyBoard* CopyBoard::map() {
  void* const memory = mmap(nullptr, sizeof(CopyBoard), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : new (memory) CopyBoard;
}

CopyPeer::CopyPeer(CopyBoard& board, int self, std::byte* vector)
    : mine_(board.sides[static_cast<std::size_t>(self)]),
      other_(board.sides[static_cast<std::size_t>(1 - self)]),
      self_(self),
      vector_(vector) {
  mine_.pid = getpid();
  mine_.address = reinterpret_cast<std::uint64_t>(vector);
}

bool CopyPeer::allowed() {
  std::byte probe{};
  const iovec here{&probe, 1}, there{reinterpret_cast<void*>(other_.address.load()), 1};
  mine_.asked = process_vm_readv(other_.pid, &here, 1, &there, 1, 0) == 1 ? 1 : 2;
  await(other_.asked, 1);
  return mine_.asked == 1 && other_.asked == 1;
}

double CopyPeer::run(CollectiveKind kind, std::int64_t elements, std::int64_t count) {
  const auto key = std::pair(kind, elements);
  if (!chunks_.contains(key)) chunks_[key] = best_chunk(kind, elements, count);
  return timed(kind, elements, count, chunks_.at(key));
}

// Both sides see the same times and choose the same.
std::int64_t CopyPeer::best_chunk(CollectiveKind kind, std::int64_t elements, std::int64_t count) {
  std::int64_t best = 0;
  double best_s = 0;
  for (const std::int64_t bytes : kChunkBytes) {
    const std::int64_t chunk = bytes / static_cast<std::int64_t>(sizeof(float));
    std::array<double, kTries> tries{};
    for (double& one : tries) one = timed(kind, elements, count, chunk);
    std::sort(tries.begin(), tries.end());
    if (best == 0 || tries[kTries / 2] < best_s) std::tie(best, best_s) = std::pair(chunk, tries[kTries / 2]);
  }
  return best;
}

double CopyPeer::timed(CollectiveKind kind, std::int64_t elements, std::int64_t count, std::int64_t chunk) {
  const SteadyClock clock;
  scratch_.resize(static_cast<std::size_t>(std::min(chunk, elements)));
  if (count > 1) once(kind, elements, chunk);
  once(CollectiveKind::kBarrier, 0, chunk);
  const std::int64_t begin_ns = clock.now_ns();
  for (std::int64_t i = 0; i < count; ++i) once(kind, elements, chunk);
  mine_.seconds = seconds(clock.now_ns() - begin_ns) / static_cast<double>(count);
  once(CollectiveKind::kBarrier, 0, chunk);
  const double slower = std::max(mine_.seconds.load(), other_.seconds.load());
  once(CollectiveKind::kBarrier, 0, chunk);  // both have read
  return slower;
}

// The first half is side 0's, the second side 1's. After a fold of a chunk its result may be read, and the addend of it that lies with the
// other side may be overwritten there: the side that folds has read it.
void CopyPeer::once(CollectiveKind kind, std::int64_t elements, std::int64_t chunk) {
  auto* const values = reinterpret_cast<float*>(vector_);
  const std::int64_t half = elements / 2, own = self_ == 0 ? 0 : half, own_size = self_ == 0 ? half : elements - half;
  const std::int64_t others = self_ == 0 ? half : 0, others_size = elements - own_size;
  const std::int64_t folded_before = other_.folded.load();  // nobody folds between two operations
  ++operations_;
  mine_.entered.store(operations_, std::memory_order_release);
  await(other_.entered, operations_);
  const bool folds = kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter;
  const bool gathers = kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kAllGather;
  std::int64_t gathered = 0;
  const auto gather = [&](std::int64_t until) {
    for (; gathered < until; gathered += chunk) {
      if (folds) await(other_.folded, folded_before + gathered / chunk + 1);
      const std::int64_t count = std::min(chunk, others_size - gathered);
      read(vector_ + (others + gathered) * 4, others + gathered, count);
    }
  };
  for (std::int64_t at = 0; folds && at < own_size; at += chunk) {
    const std::int64_t count = std::min(chunk, own_size - at);
    read(reinterpret_cast<std::byte*>(scratch_.data()), own + at, count);
    comm::add_fp32(values + own + at, scratch_.data(), count);
    mine_.folded.fetch_add(1, std::memory_order_release);
    if (gathers) gather(std::min(at, others_size));  // what the other has folded meanwhile is still in a cache
  }
  if (gathers) gather(others_size);
  mine_.left.store(operations_, std::memory_order_release);
  await(other_.left, operations_);
}

void CopyPeer::read(std::byte* into, std::int64_t first, std::int64_t elements) {
  const auto bytes = static_cast<std::size_t>(elements) * sizeof(float);
  for (std::size_t done = 0; done < bytes;) {
    const iovec here{into + done, bytes - done};
    const iovec there{reinterpret_cast<void*>(other_.address.load() + static_cast<std::uint64_t>(first) * sizeof(float) + done), bytes - done};
    const ssize_t got = process_vm_readv(other_.pid, &here, 1, &there, 1, 0);
    TROUPE_CHECK(got > 0) << "process_vm_readv of " << bytes << " bytes: " << std::strerror(errno);
    done += static_cast<std::size_t>(got);
  }
}

}  // namespace troupe::bench
