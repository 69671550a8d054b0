// The memory of one device: one arena whose size the plan gave, cut into counted buffers.
//
// The arena is mapped once and touched once, so the resident size is the plan's sum and no page fault falls into a step. A
// buffer goes back to the pool when its last handle dies; first fit, neighbours merge. Every take names a *term* of the
// plan (weights, gradients, optimizer, activations, edges, workspace ...), so memory can be shown against the prediction.
//
// Threads: any; one lock, taken at start-up only in a steady run (takes() tells, BufferPool.CountsTakes).
// Errors: take() beyond the arena is a bug of the plan: it says the term, what was asked, and what is held by each term.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace troupe::device {

class BufferPool;

// A counted handle to bytes of a pool, 64-byte aligned. Copies share. Empty after a move.
class Buffer {
 public:
  Buffer() = default;
  std::byte* data() const { return block_ ? block_->data : nullptr; }
  std::int64_t bytes() const { return block_ ? block_->bytes : 0; }
  explicit operator bool() const { return block_ != nullptr; }

 private:
  friend class BufferPool;
  struct Block {
    BufferPool* pool = nullptr;
    std::byte* data = nullptr;
    std::int64_t bytes = 0;  // what was asked; the arena keeps it rounded up
    std::string term;
    ~Block();
  };
  std::shared_ptr<Block> block_;
};

class BufferPool {
 public:
  static constexpr std::int64_t kAlignment = 64;
  // What a take of `bytes` costs the arena.
  static std::int64_t rounded(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

  explicit BufferPool(std::int64_t capacity_bytes);
  ~BufferPool();  // every buffer must be back
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  Buffer take(const std::string& term, std::int64_t bytes);

  std::int64_t capacity_bytes() const { return capacity_; }
  std::int64_t used_bytes() const;
  std::int64_t peak_bytes() const;
  std::int64_t takes() const;                              // how often take() was called, ever
  std::map<std::string, std::int64_t> bytes_by_term() const;

 private:
  friend struct Buffer::Block;
  void give_back(const Buffer::Block& block);
  const std::int64_t capacity_;
  std::byte* arena_ = nullptr;
  mutable std::mutex mutex_;
  std::map<std::int64_t, std::int64_t> free_;              // offset -> size
  std::map<std::string, std::int64_t> by_term_;
  std::int64_t used_ = 0, peak_ = 0, takes_ = 0;
};

}  // namespace troupe::device
