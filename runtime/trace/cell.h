// A plain value that one thread replaces as a whole and others read as a whole, without either waiting for a lock.
//
// Threads: `store` by one writer; `load` by any. The writer never waits; a reader tries again while it is overtaken, and takes what is there after
// kTries, each word of which is one that was written: a writer that is stopped in the middle stops nobody who looks. Limits: T is trivially
// copyable; a store copies it word by word; for values that are written now and then, not without a pause. Invariant: a value that is read was written as one (Cell.IsReadAsItWasWritten).
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <type_traits>

namespace troupe::trace {

template <class T>
class Cell {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  static constexpr int kTries = 1000, kYields = 100;
  static constexpr std::chrono::microseconds kPause{50};

  Cell() { store(T{}); }
  explicit Cell(const T& value) { store(value); }

  void store(const T& value) {
    Words words{};
    std::memcpy(words.data(), &value, sizeof value);
    const std::uint64_t version = version_.load(std::memory_order_relaxed);
    version_.store(version + 1, std::memory_order_relaxed);
    // Release: who sees a word of the new value sees that the version is odd.
    for (std::size_t i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_release);
    version_.store(version + 2, std::memory_order_release);
  }
  T load() const {
    Words words{};
    for (int i = 0; i < kTries; ++i) {
      const std::uint64_t version = version_.load(std::memory_order_acquire);
      for (std::size_t word = 0; word < kWords; ++word) words[word] = words_[word].load(std::memory_order_acquire);
      if (version % 2 == 0 && version == version_.load(std::memory_order_relaxed)) break;
      if (i < kYields) std::this_thread::yield();
      else std::this_thread::sleep_for(kPause);  // the writer has lost its core
    }
    T value;
    std::memcpy(static_cast<void*>(&value), words.data(), sizeof value);
    return value;
  }

 private:
  static constexpr std::size_t kWords = (sizeof(T) + 7) / 8;
  using Words = std::array<std::uint64_t, kWords>;

  std::atomic<std::uint64_t> version_{0};  // odd while the words change
  std::array<std::atomic<std::uint64_t>, kWords> words_{};
};

}  // namespace troupe::trace
