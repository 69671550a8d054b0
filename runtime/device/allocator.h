// Where buffers come from, so that the plan and the run ask by the same code: CountingAllocator only adds up, PoolAllocator
// hands out. What the plan predicts is what the run takes, because it is the same list of takes.
//
// Threads: start-up only, one thread.
#pragma once

#include <map>
#include <string>

#include "runtime/device/tensor.h"

namespace troupe::device {

class Allocator {
 public:
  virtual ~Allocator() = default;
  // `term` is the plan's name for what the tensor is: "weights", "optimizer", "activations", "edges" ...
  virtual Tensor take(const std::string& term, DType type, Shape shape) = 0;
};

class PoolAllocator final : public Allocator {
 public:
  explicit PoolAllocator(BufferPool& pool) : pool_(pool) {}
  Tensor take(const std::string& term, DType type, Shape shape) override { return Tensor(pool_, term, type, shape); }

 private:
  BufferPool& pool_;
};

// Its tensors have a shape and no memory.
class CountingAllocator final : public Allocator {
 public:
  Tensor take(const std::string& term, DType type, Shape shape) override {
    by_term_[term] += BufferPool::rounded(shape.elements() * size_bytes(type));
    return Tensor::without_memory(type, shape);
  }
  const std::map<std::string, std::int64_t>& bytes_by_term() const { return by_term_; }
  std::int64_t total_bytes() const {
    std::int64_t total = 0;
    for (const auto& [term, bytes] : by_term_) total += bytes;
    return total;
  }

 private:
  std::map<std::string, std::int64_t> by_term_;
};

}  // namespace troupe::device
