#include "runtime/device/team.h"

namespace troupe::device {
namespace {

// Some 50 us of polling before sleeping: longer than the gap between two kernels, and little lost when the cores are shared.
constexpr int kSpins = 2000;

void relax() { __builtin_ia32_pause(); }

}  // namespace

ThreadTeam::ThreadTeam(int threads) : size_(threads < 1 ? 1 : threads) {
  for (int member = 1; member < size_; ++member) members_.emplace_back([this, member] { serve(member); });
}

ThreadTeam::~ThreadTeam() {
  closing_.store(true);
  round_.fetch_add(1);
  round_.notify_all();
  for (auto& thread : members_) thread.join();
}

void ThreadTeam::run_erased(Function function, const void* context) {
  function_ = function;
  context_ = context;
  busy_.store(size_ - 1, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  function(context, 0, size_);
  for (int spin = 0;; ++spin) {
    const int busy = busy_.load(std::memory_order_acquire);
    if (busy == 0) return;
    if (spin < kSpins) {
      relax();
    } else {
      busy_.wait(busy, std::memory_order_acquire);
    }
  }
}

void ThreadTeam::serve(int member) {
  std::uint32_t seen = 0;
  while (true) {
    for (int spin = 0; round_.load(std::memory_order_acquire) == seen; ++spin) {
      if (spin < kSpins) {
        relax();
      } else {
        round_.wait(seen, std::memory_order_acquire);
      }
    }
    ++seen;
    if (closing_.load()) return;
    function_(context_, member, size_);
    if (busy_.fetch_sub(1, std::memory_order_release) == 1) busy_.notify_one();
  }
}

}  // namespace troupe::device
