#include "models/checkpoint/hash.h"

#include <xxhash.h>

#include <algorithm>
#include <new>
#include <vector>

#include "absl/strings/str_format.h"
#include "models/checkpoint/input_file.h"
#include "runtime/base/check.h"

namespace troupe::checkpoint {

struct Hash::State {
  XXH3_state_t* xxh3 = XXH3_createState();
  State() { TROUPE_CHECK(xxh3 != nullptr && XXH3_128bits_reset(xxh3) == XXH_OK) << "no memory for a hash"; }
  ~State() { XXH3_freeState(xxh3); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Hash::Hash() : state_(std::make_unique<State>()) {}
Hash::Hash(Hash&&) noexcept = default;
Hash& Hash::operator=(Hash&&) noexcept = default;
Hash::~Hash() = default;

void Hash::update(std::span<const std::byte> bytes) {
  TROUPE_CHECK(XXH3_128bits_update(state_->xxh3, bytes.data(), bytes.size()) == XXH_OK);
}

std::string Hash::hex() const {
  const XXH128_hash_t digest = XXH3_128bits_digest(state_->xxh3);
  return absl::StrFormat("%016x%016x", digest.high64, digest.low64);
}

std::string hash_of(const std::string& text) {
  Hash hash;
  hash.update(std::as_bytes(std::span(text.data(), text.size())));
  return hash.hex();
}

StatusOr<std::string> hash_of_file(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(const InputFile file, InputFile::open(path));
  std::vector<std::byte> part(std::size_t{4} << 20);
  Hash hash;
  for (std::int64_t at = 0; at < file.size_bytes();) {
    const auto length =
        std::min<std::int64_t>(file.size_bytes() - at, static_cast<std::int64_t>(part.size()));
    const std::span<std::byte> filled = std::span(part).first(static_cast<std::size_t>(length));
    TROUPE_RETURN_IF_ERROR(file.read(at, filled));
    hash.update(filled);
    at += length;
  }
  return hash.hex();
}

}  // namespace troupe::checkpoint
