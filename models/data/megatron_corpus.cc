#include "models/data/megatron_corpus.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "models/data/sidecar.h"
#include "runtime/device/storage.h"

namespace troupe::data {
namespace {

constexpr char kMagic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', '\0', '\0'};
constexpr std::size_t kVersionAt = 9, kTypeAt = 17, kSequencesAt = 18, kDocumentsAt = 26, kIndexHeaderBytes = 34;

std::optional<TokenType> type_of_code(int code) {
  switch (code) {
    case 1:
      return TokenType::kU8;
    case 2:
      return TokenType::kI8;
    case 3:
      return TokenType::kI16;
    case 4:
      return TokenType::kI32;
    case 5:
      return TokenType::kI64;
    case 8:
      return TokenType::kU16;
    default:
      return std::nullopt;
  }
}

Status torn(const std::string& path, std::size_t offset, const std::string& what) {
  return absl::DataLossError(absl::StrCat(path, ": at byte ", offset, ": ", what));
}

// Facts of PREFIX.json, checked against the pair.
Status add_sidecar(const std::string& prefix, CorpusFacts& facts) {
  const std::string path = prefix + ".json";
  const StatusOr<std::string> text = device::read_file(path);
  if (absl::IsNotFound(text.status())) return ok();
  TROUPE_RETURN_IF_ERROR(text.status());
  TROUPE_ASSIGN_OR_RETURN(const Sidecar sidecar, parse_sidecar(path, *text));
  if (sidecar.tokens != facts.tokens || sidecar.documents != facts.documents) {
    return absl::DataLossError(absl::StrCat(path, ": says ", sidecar.tokens, " tokens in ", sidecar.documents,
                                            " documents, but ", prefix, ".idx has ", facts.tokens, " in ",
                                            *facts.documents, "; prepare the corpus again"));
  }
  facts.tokenizer = sidecar.tokenizer;
  facts.vocab_size = sidecar.vocab_size;
  facts.end_of_document = sidecar.end_of_document;
  facts.content_xxh3 = sidecar.content_xxh3;
  return ok();
}

}  // namespace

bool is_megatron_index(std::span<const std::byte> bytes) {
  return bytes.size() >= sizeof kMagic && std::memcmp(bytes.data(), kMagic, sizeof kMagic) == 0;
}

StatusOr<MegatronCorpus::Index> MegatronCorpus::parse_header(const MappedFile& file) {
  const auto bytes = file.bytes();
  if (bytes.empty()) return absl::DataLossError(absl::StrCat(file.path(), ": the index is empty"));
  if (!is_megatron_index(bytes)) {
    return absl::InvalidArgumentError(absl::StrCat(
        file.path(), ": at byte 0: not a Megatron index, which begins with MMIDIDX and two zero bytes"));
  }
  if (bytes.size() < kIndexHeaderBytes) {
    return torn(file.path(), bytes.size(),
                absl::StrCat("ends within the header of ", kIndexHeaderBytes, " bytes"));
  }
  if (const auto version = load_field<std::uint64_t>(bytes, kVersionAt); version != 1) {
    return absl::InvalidArgumentError(absl::StrCat(file.path(), ": at byte ", kVersionAt, ": version ",
                                                   version, "; this build reads version 1"));
  }
  const int code = load_field<std::uint8_t>(bytes, kTypeAt);
  const auto type = type_of_code(code);
  if (!type) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": at byte ", kTypeAt, ": token type code ", code,
                     "; tokens are integers: 1 uint8, 2 int8, 3 int16, 4 int32, 5 int64, 8 uint16"));
  }
  const auto sequences = load_field<std::uint64_t>(bytes, kSequencesAt);
  const auto documents = load_field<std::uint64_t>(bytes, kDocumentsAt);
  if (sequences == 0) return torn(file.path(), kSequencesAt, "no sequences: the corpus is empty");
  if (documents < 2) {
    return torn(file.path(), kDocumentsAt,
                absl::StrCat(documents, " document indices; at least 2 are needed, 0 and the end"));
  }
  // Each sequence takes 12 bytes and each index 8: so neither sum below can overflow.
  const std::uint64_t rest = bytes.size() - kIndexHeaderBytes;
  if (sequences > rest / 12 || documents > rest / 8 || sequences * 12 + documents * 8 > rest) {
    return torn(file.path(), bytes.size(),
                absl::StrCat("ends too early: ", sequences, " sequences and ", documents,
                             " document indices do not fit"));
  }
  const std::uint64_t needed = sequences * 12 + documents * 8;
  if (rest != needed && rest != needed + sequences) {
    return torn(file.path(), kIndexHeaderBytes + needed,
                absl::StrCat(rest - needed, " bytes too many after the document indices"));
  }
  Index index{.type = *type,
              .sequences = static_cast<std::int64_t>(sequences),
              .document_indices = static_cast<std::int64_t>(documents)};
  index.lengths_at = kIndexHeaderBytes;
  index.pointers_at = index.lengths_at + sequences * 4;
  index.documents_at = index.pointers_at + sequences * 8;
  return index;
}

// Sequences lie back to back from 0 to the end of .bin, document indices rise from 0 to the number of
// sequences. Returns the number of tokens.
StatusOr<std::int64_t> MegatronCorpus::check_tables(const MappedFile& file, const MappedFile& tokens,
                                                    const Index& index) {
  const auto bytes = file.bytes();
  const std::int64_t size = size_bytes(index.type);
  const auto bin_bytes = static_cast<std::int64_t>(tokens.bytes().size());
  std::int64_t end = 0;
  for (std::int64_t i = 0; i < index.sequences; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const auto length = load_field<std::int32_t>(bytes, index.lengths_at + at * 4);
    const auto pointer = load_field<std::int64_t>(bytes, index.pointers_at + at * 8);
    if (length < 0) {
      return torn(file.path(), index.lengths_at + at * 4,
                  absl::StrCat("sequence ", i, " has length ", length));
    }
    if (pointer != end) {
      return torn(file.path(), index.pointers_at + at * 8,
                  absl::StrCat("sequence ", i, " starts at byte ", pointer, " of ", tokens.path(),
                               ", must be ", end, ", where the one before ends"));
    }
    end += length * size;
    if (end > bin_bytes) {
      return absl::DataLossError(absl::StrCat(tokens.path(), ": at byte ", bin_bytes,
                                              ": ends too early: sequence ", i, " of ", file.path(),
                                              " ends at byte ", end));
    }
  }
  if (end != bin_bytes) {
    return absl::DataLossError(absl::StrCat(tokens.path(), ": at byte ", end, ": ", bin_bytes - end,
                                            " bytes after the last sequence of ", file.path(),
                                            "; the two files do not belong together"));
  }
  if (end == 0) return absl::DataLossError(absl::StrCat(tokens.path(), ": the corpus is empty"));
  std::int64_t previous = 0;
  for (std::int64_t d = 0; d < index.document_indices; ++d) {
    const std::size_t at = index.documents_at + static_cast<std::size_t>(d) * 8;
    const auto sequence = load_field<std::int64_t>(bytes, at);
    if (d == 0 && sequence != 0)
      return torn(file.path(), at, absl::StrCat("first document index is ", sequence, ", must be 0"));
    if (sequence < previous || sequence > index.sequences) {
      return torn(file.path(), at,
                  absl::StrCat("document index ", d, " is ", sequence, ", must be from ", previous, " to ",
                               index.sequences));
    }
    previous = sequence;
  }
  if (previous != index.sequences) {
    return torn(file.path(), index.documents_at + static_cast<std::size_t>(index.document_indices - 1) * 8,
                absl::StrCat("last document index is ", previous, ", must be ", index.sequences));
  }
  return end / size;
}

StatusOr<std::unique_ptr<MegatronCorpus>> MegatronCorpus::open(const std::string& prefix,
                                                               const CorpusOptions& options) {
  TROUPE_ASSIGN_OR_RETURN(MappedFile index_file, MappedFile::open(prefix + ".idx"));
  TROUPE_ASSIGN_OR_RETURN(const Index index, parse_header(index_file));
  TROUPE_ASSIGN_OR_RETURN(MappedFile token_file, MappedFile::open(prefix + ".bin"));
  CorpusFacts facts{.path = prefix, .format = "megatron", .token_type = index.type};
  TROUPE_ASSIGN_OR_RETURN(facts.tokens, check_tables(index_file, token_file, index));
  facts.documents = index.document_indices - 1;
  TROUPE_RETURN_IF_ERROR(add_sidecar(prefix, facts));
  if (options.vocab_size > 0 && facts.vocab_size > options.vocab_size) {
    return absl::InvalidArgumentError(
        absl::StrCat(prefix, ".json: tokenizer \"", facts.tokenizer, "\" has ", facts.vocab_size,
                     " ids, the model's vocabulary only ", options.vocab_size,
                     "; raise the model's vocabulary or choose another corpus"));
  }
  std::int32_t limit = options.vocab_size > 0 ? options.vocab_size : facts.vocab_size;
  if (limit <= 0) limit = std::numeric_limits<std::int32_t>::max();
  return std::unique_ptr<MegatronCorpus>(
      new MegatronCorpus(std::move(facts), std::move(index_file), std::move(token_file), index, limit));
}

Status MegatronCorpus::read(std::int64_t begin, std::span<std::int32_t> out) const {
  TROUPE_RETURN_IF_ERROR(check_range(begin, out.size()));
  const std::int64_t size = size_bytes(index_.type);
  BadToken bad{};
  if (widen_tokens(index_.type, token_file_.bytes().data() + begin * size, limit_, out, bad)) return ok();
  return bad_token_status(token_file_.path(), begin + static_cast<std::int64_t>(bad.index),
                          (begin + static_cast<std::int64_t>(bad.index)) * size, bad.value, limit_);
}

// First token of document d; of one past the last: the number of tokens.
std::int64_t MegatronCorpus::document_begin(std::int64_t document) const {
  const auto bytes = index_file_.bytes();
  const auto sequence =
      load_field<std::int64_t>(bytes, index_.documents_at + static_cast<std::size_t>(document) * 8);
  if (sequence >= index_.sequences) return tokens();
  return load_field<std::int64_t>(bytes, index_.pointers_at + static_cast<std::size_t>(sequence) * 8) /
         size_bytes(index_.type);
}

std::int64_t MegatronCorpus::next_document_begin(std::int64_t from, std::int64_t limit) const {
  if (from <= 0) return std::min<std::int64_t>(0, limit);
  std::int64_t low = 0,
               high =
                   *facts().documents;  // the first document that begins at or after `from` is in [low, high]
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (document_begin(middle) >= from) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return std::min(document_begin(low), limit);
}

Status MegatronCorpus::verify_content() const {
  if (!facts().content_xxh3) return ok();
  const auto bytes = token_file_.bytes();
  const std::uint64_t found = XXH3_64bits(bytes.data(), bytes.size());
  if (found == *facts().content_xxh3) return ok();
  return absl::DataLossError(
      absl::StrFormat("%s: XXH3 of its bytes is %016x, %s.json says %016x; prepare the corpus again",
                      token_file_.path(), found, facts().path, *facts().content_xxh3));
}

}  // namespace troupe::data
