#include "models/data/llmc_corpus.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace troupe::data {
namespace {

constexpr std::size_t kLlmcHeaderBytes = 1024;

// What a header's magic says the tokens are.
struct Model {
  const char* format;
  std::int32_t magic, version;
  TokenType type;
  std::int32_t end_of_text;
};
constexpr Model kModels[] = {{"llm.c gpt-2", 20240520, 1, TokenType::kU16, 50256},
                             {"llm.c llama-3", 20240801, 7, TokenType::kU32, 128000}};

// Other llm.c files that a person may name by mistake.
const char* other_llmc_file(std::int32_t magic) {
  switch (magic) {
    case 20240522:
      return "multiple-choice evaluation examples";
    case 20240326:
    case 20240803:
      return "a model";
    case 20240327:
      return "a debug state";
    case 20240328:
      return "a tokenizer";
    case 20240527:
      return "an optimizer state";
    default:
      return nullptr;
  }
}

struct Header {
  const Model* model;
  std::int64_t tokens;
};

StatusOr<Header> parse_header(const MappedFile& file) {
  const auto bytes = file.bytes();
  const std::string& path = file.path();
  if (bytes.empty()) return absl::DataLossError(absl::StrCat(path, ": the file is empty"));
  const auto magic = bytes.size() >= 4 ? load_field<std::int32_t>(bytes, 0) : 0;
  const auto* model =
      std::find_if(std::begin(kModels), std::end(kModels), [&](const Model& m) { return m.magic == magic; });
  if (model == std::end(kModels)) {
    const char* other = other_llmc_file(magic);
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": at byte 0: ",
        other ? absl::StrCat("an llm.c file, but of ", other, ", not of tokens")
              : std::string(
                    "not a token file of llm.c (magic 20240520 or 20240801) and no Megatron .idx beside it; "
                    "text is turned into a corpus by `troupe data prepare`")));
  }
  if (bytes.size() < kLlmcHeaderBytes) {
    return absl::DataLossError(
        absl::StrCat(path, ": at byte ", bytes.size(), ": ends within the header of 1024 bytes"));
  }
  if (const auto version = load_field<std::int32_t>(bytes, 4); version != model->version) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": at byte 4: version ", version, "; ",
                                                   model->format, " files have version ", model->version));
  }
  const auto tokens = load_field<std::int32_t>(bytes, 8);
  if (tokens <= 0)
    return absl::DataLossError(absl::StrCat(path, ": at byte 8: ", tokens, " tokens; must be at least 1"));
  const std::int64_t expected = static_cast<std::int64_t>(kLlmcHeaderBytes) + tokens * size_bytes(model->type);
  if (const auto size = static_cast<std::int64_t>(bytes.size()); size != expected) {
    return absl::DataLossError(absl::StrCat(path, ": at byte ", std::min(size, expected), ": ",
                                            size < expected ? "ends too early" : "bytes left over", ": ",
                                            tokens, " tokens take ", expected, " bytes, the file has ",
                                            size));
  }
  return Header{model, tokens};
}

}  // namespace

StatusOr<std::unique_ptr<LlmcCorpus>> LlmcCorpus::open(const std::string& name,
                                                       const std::vector<std::string>& paths,
                                                       const CorpusOptions& options) {
  CorpusFacts facts{.path = name, .files = static_cast<std::int64_t>(paths.size())};
  const Model* model = nullptr;
  std::vector<Shard> shards;
  for (const std::string& path : paths) {
    TROUPE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path));
    TROUPE_ASSIGN_OR_RETURN(const Header header, parse_header(file));
    if (model && header.model != model) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": is of ", header.model->format, ", but ",
                                                     paths[0], " of ", model->format,
                                                     "; one corpus has one vocabulary"));
    }
    model = header.model;
    shards.push_back({std::move(file), facts.tokens, header.tokens});
    facts.tokens += header.tokens;
  }
  if (!model) return absl::InvalidArgumentError(absl::StrCat(name, ": no token files"));
  facts.format = model->format;
  facts.token_type = model->type;
  facts.end_of_document = options.end_of_document >= 0 ? options.end_of_document : model->end_of_text;
  const std::int32_t limit =
      options.vocab_size > 0 ? options.vocab_size : std::numeric_limits<std::int32_t>::max();
  return std::unique_ptr<LlmcCorpus>(new LlmcCorpus(std::move(facts), std::move(shards), limit));
}

const LlmcCorpus::Shard& LlmcCorpus::shard_of(std::int64_t token) const {
  return *(std::upper_bound(shards_.begin(), shards_.end(), token,
                            [](std::int64_t at, const Shard& shard) { return at < shard.begin; }) -
           1);
}

Status LlmcCorpus::read(std::int64_t begin, std::span<std::int32_t> out) const {
  TROUPE_RETURN_IF_ERROR(check_range(begin, out.size()));
  const TokenType type = facts().token_type;
  while (!out.empty()) {
    const Shard& shard = shard_of(begin);
    const auto here = std::min(out.size(), static_cast<std::size_t>(shard.begin + shard.tokens - begin));
    const auto offset = static_cast<std::int64_t>(kLlmcHeaderBytes) + (begin - shard.begin) * size_bytes(type);
    BadToken bad{};
    if (!widen_tokens(type, shard.file.bytes().data() + offset, limit_, out.first(here), bad)) {
      const auto index = static_cast<std::int64_t>(bad.index);
      return bad_token_status(shard.file.path(), begin + index, offset + index * size_bytes(type), bad.value,
                              limit_);
    }
    out = out.subspan(here);
    begin += static_cast<std::int64_t>(here);
  }
  return ok();
}

std::int64_t LlmcCorpus::next_document_begin(std::int64_t from, std::int64_t limit) const {
  if (from <= 0) return std::min<std::int64_t>(0, limit);
  const auto size = static_cast<std::size_t>(size_bytes(facts().token_type));
  const auto end_of_text = static_cast<std::uint32_t>(*facts().end_of_document);
  while (from < limit) {
    const Shard& shard = shard_of(from - 1);
    const auto bytes = shard.file.bytes();
    const std::int64_t stop = std::min(limit, shard.begin + shard.tokens + 1);
    for (; from < stop; ++from) {
      const std::size_t at = kLlmcHeaderBytes + static_cast<std::size_t>(from - 1 - shard.begin) * size;
      const std::uint32_t before =
          size == 2 ? load_field<std::uint16_t>(bytes, at) : load_field<std::uint32_t>(bytes, at);
      if (before == end_of_text) return from;
    }
  }
  return limit;
}

}  // namespace troupe::data
