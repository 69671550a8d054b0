#include "runtime/device/pool.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "runtime/base/check.h"

namespace troupe::device {

BufferPool::BufferPool(std::int64_t capacity_bytes) : capacity_(rounded(capacity_bytes)) {
  if (capacity_ == 0) return;
  // Populated at once: the plan's memory is there from the start or the start fails.
  void* mapped = mmap(nullptr, static_cast<std::size_t>(capacity_), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  TROUPE_CHECK(mapped != MAP_FAILED) << "cannot map " << capacity_ << " bytes for the device pool";
  madvise(mapped, static_cast<std::size_t>(capacity_), MADV_HUGEPAGE);
  if (madvise(mapped, static_cast<std::size_t>(capacity_), MADV_POPULATE_WRITE) != 0) {
    TROUPE_CHECK(errno == EINVAL) << "cannot populate " << capacity_ << " bytes for the device pool: " << std::strerror(errno);
    // a kernel before 5.14 does not know it: touch every page
    for (std::int64_t at = 0; at < capacity_; at += 4096) static_cast<volatile std::byte*>(mapped)[at] = std::byte{0};
  }
  arena_ = static_cast<std::byte*>(mapped);
  free_.emplace(0, capacity_);
}

BufferPool::~BufferPool() {
  TROUPE_CHECK(used_ == 0) << used_ << " bytes of the pool are still held";
  if (arena_) munmap(arena_, static_cast<std::size_t>(capacity_));
}

Buffer BufferPool::take(const std::string& term, std::int64_t bytes) {
  auto block = std::make_shared<Buffer::Block>();
  block->bytes = bytes;
  block->term = term;
  const std::int64_t size = rounded(bytes);
  std::lock_guard lock(mutex_);
  ++takes_;
  if (size == 0) {  // nothing, of which even a full pool has enough
    block->data = arena_;
    block->pool = this;
    Buffer buffer;
    buffer.block_ = std::move(block);
    return buffer;
  }
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second < size) continue;
    const auto [offset, room] = *it;
    free_.erase(it);
    if (room > size) free_.emplace(offset + size, room - size);
    used_ += size;
    peak_ = std::max(peak_, used_);
    by_term_[term] += size;
    block->data = arena_ + offset;
    block->pool = this;
    Buffer buffer;
    buffer.block_ = std::move(block);
    return buffer;
  }
  std::string held;
  for (const auto& [name, amount] : by_term_) held += " " + name + "=" + std::to_string(amount);
  TROUPE_CHECK(false) << "pool of " << capacity_ << " bytes has no room for " << bytes << " bytes of '" << term
                      << "'; held:" << held;
  return {};
}

Buffer::Block::~Block() {
  if (pool) pool->give_back(*this);
}

void BufferPool::give_back(const Buffer::Block& block) {
  const std::int64_t size = rounded(block.bytes);
  std::lock_guard lock(mutex_);
  used_ -= size;
  by_term_[block.term] -= size;
  if (size == 0) return;
  auto it = free_.emplace(block.data - arena_, size).first;
  if (auto next = std::next(it); next != free_.end() && it->first + it->second == next->first) {
    it->second += next->second;
    free_.erase(next);
  }
  if (it != free_.begin()) {
    if (auto before = std::prev(it); before->first + before->second == it->first) {
      before->second += it->second;
      free_.erase(it);
    }
  }
}

std::int64_t BufferPool::used_bytes() const {
  std::lock_guard lock(mutex_);
  return used_;
}
std::int64_t BufferPool::peak_bytes() const {
  std::lock_guard lock(mutex_);
  return peak_;
}
std::int64_t BufferPool::takes() const {
  std::lock_guard lock(mutex_);
  return takes_;
}
std::map<std::string, std::int64_t> BufferPool::bytes_by_term() const {
  std::lock_guard lock(mutex_);
  return by_term_;
}

}  // namespace troupe::device
