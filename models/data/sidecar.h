// PREFIX.json beside a prepared corpus: what made it, so that a run or a person can tell. A corpus opens
// without one.
//
// {"format": "troupe-corpus", "version": 1, "tokenizer": "byte", "vocab_size": 257, "end_of_document": 256,
//  "documents": D, "tokens": N, "text_bytes": N, "sources": files read, "xxh3": "16 hex digits" of .bin}
// Errors: kDataLoss for a file that is not such JSON, naming file and key.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/status.h"

namespace troupe::data {

struct Sidecar {
  std::string tokenizer{};
  std::int32_t vocab_size = 0;
  std::int32_t end_of_document = 0;
  std::int64_t documents = 0;
  std::int64_t tokens = 0;
  std::int64_t text_bytes = 0;
  std::int64_t sources = 0;
  std::uint64_t content_xxh3 = 0;
};

std::string to_json(const Sidecar& sidecar);
StatusOr<Sidecar> parse_sidecar(const std::string& path, const std::string& json);

}  // namespace troupe::data
