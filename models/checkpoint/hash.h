// XXH3-128 of a stream of bytes, as 32 hex digits, most significant first (as `xxhsum -H2` prints it).
//
// Finds torn and flipped bytes, not forgery. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/base/status.h"

namespace troupe::checkpoint {

class Hash {
 public:
  Hash();
  Hash(Hash&&) noexcept;
  Hash& operator=(Hash&&) noexcept;
  ~Hash();

  void update(std::span<const std::byte> bytes);
  std::string hex() const;  // of all bytes so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string hash_of(const std::string& text);
StatusOr<std::string> hash_of_file(const std::string& path);

}  // namespace troupe::checkpoint
