#include "models/data/sidecar.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace troupe::data {
namespace {

using Json = nlohmann::json;

Status read_number(const std::string& path, const Json& json, const char* key, std::int64_t most,
                   std::int64_t& value) {
  const auto field = json.find(key);
  if (field == json.end() || !field->is_number_unsigned() ||
      field->get<std::uint64_t>() > static_cast<std::uint64_t>(most)) {
    return absl::DataLossError(absl::StrCat(path, ": key \"", key, "\" must be a whole number from 0 to ",
                                            most, "; prepare the corpus again"));
  }
  value = field->get<std::int64_t>();
  return ok();
}

Status read_text(const std::string& path, const Json& json, const char* key, std::string& value) {
  const auto field = json.find(key);
  if (field == json.end() || !field->is_string()) {
    return absl::DataLossError(
        absl::StrCat(path, ": key \"", key, "\" must be a string; prepare the corpus again"));
  }
  value = field->get<std::string>();
  return ok();
}

}  // namespace

std::string to_json(const Sidecar& sidecar) {
  const nlohmann::ordered_json json = {
      {"format", "troupe-corpus"},
      {"version", 1},
      {"tokenizer", sidecar.tokenizer},
      {"vocab_size", sidecar.vocab_size},
      {"end_of_document", sidecar.end_of_document},
      {"documents", sidecar.documents},
      {"tokens", sidecar.tokens},
      {"text_bytes", sidecar.text_bytes},
      {"sources", sidecar.sources},
      {"xxh3", absl::StrFormat("%016x", sidecar.content_xxh3)},
  };
  return json.dump(2) + "\n";
}

StatusOr<Sidecar> parse_sidecar(const std::string& path, const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return absl::DataLossError(absl::StrCat(path, ": not a JSON object; prepare the corpus again"));
  Sidecar sidecar;
  std::string format, hash;
  TROUPE_RETURN_IF_ERROR(read_text(path, json, "format", format));
  if (format != "troupe-corpus") {
    return absl::DataLossError(
        absl::StrCat(path, ": key \"format\" is \"", format, "\", must be \"troupe-corpus\""));
  }
  std::int64_t version = 0, vocab_size = 0, end_of_document = 0;
  constexpr std::int64_t kInt32 = std::numeric_limits<std::int32_t>::max();
  constexpr std::int64_t kInt64 = std::numeric_limits<std::int64_t>::max();
  TROUPE_RETURN_IF_ERROR(read_number(path, json, "version", kInt32, version));
  if (version != 1) {
    return absl::DataLossError(absl::StrCat(path, ": key \"version\" is ", version, "; this build reads 1"));
  }
  TROUPE_RETURN_IF_ERROR(read_text(path, json, "tokenizer", sidecar.tokenizer));
  TROUPE_RETURN_IF_ERROR(read_number(path, json, "vocab_size", kInt32, vocab_size));
  TROUPE_RETURN_IF_ERROR(read_number(path, json, "end_of_document", kInt32, end_of_document));
  TROUPE_RETURN_IF_ERROR(read_number(path, json, "documents", kInt64, sidecar.documents));
  TROUPE_RETURN_IF_ERROR(read_number(path, json, "tokens", kInt64, sidecar.tokens));
  TROUPE_RETURN_IF_ERROR(read_number(path, json, "text_bytes", kInt64, sidecar.text_bytes));
  TROUPE_RETURN_IF_ERROR(read_number(path, json, "sources", kInt64, sidecar.sources));
  TROUPE_RETURN_IF_ERROR(read_text(path, json, "xxh3", hash));
  if (hash.size() != 16 || !absl::SimpleHexAtoi(hash, &sidecar.content_xxh3)) {
    return absl::DataLossError(
        absl::StrCat(path, ": key \"xxh3\" must be 16 hex digits; prepare the corpus again"));
  }
  sidecar.vocab_size = static_cast<std::int32_t>(vocab_size);
  sidecar.end_of_document = static_cast<std::int32_t>(end_of_document);
  return sidecar;
}

}  // namespace troupe::data
