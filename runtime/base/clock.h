// Time is passed in: code that measures or waits takes a Clock, so that a test can move time itself.
#pragma once

#include <atomic>
#include <cstdint>

namespace troupe {

// Nanoseconds since an arbitrary start; never goes back. Threads: any.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual std::int64_t now_ns() const = 0;
};

class SteadyClock final : public Clock {
 public:
  std::int64_t now_ns() const override;
};

// Stands still until moved. The deterministic world's clock.
class VirtualClock final : public Clock {
 public:
  std::int64_t now_ns() const override { return now_ns_.load(std::memory_order_relaxed); }
  void advance(std::int64_t by_ns) { now_ns_.fetch_add(by_ns, std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> now_ns_{0};
};

inline double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace troupe
