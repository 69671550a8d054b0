#include "models/data/inspect.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "models/data/tokenizer.h"

namespace troupe::data {
namespace {

constexpr std::int64_t kPieceTokens = 1 << 20;
constexpr std::int64_t kShownTokens = 160;

Status read_through(const Corpus& corpus, CorpusSummary& summary) {
  std::vector<std::int32_t> piece;
  for (std::int64_t at = 0; at < corpus.tokens(); at += kPieceTokens) {
    piece.resize(static_cast<std::size_t>(std::min(kPieceTokens, corpus.tokens() - at)));
    TROUPE_RETURN_IF_ERROR(corpus.read(at, piece));
    summary.largest_token = std::max(summary.largest_token, *std::max_element(piece.begin(), piece.end()));
  }
  return ok();
}

void measure_documents(const Corpus& corpus, CorpusSummary& summary) {
  summary.shortest_tokens = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t begin = 0; begin < corpus.tokens();) {
    const std::int64_t end = corpus.next_document_begin(begin + 1, corpus.tokens());
    const std::int64_t length = end - begin;
    ++summary.documents;
    summary.shortest_tokens = std::min(summary.shortest_tokens, length);
    summary.longest_tokens = std::max(summary.longest_tokens, length);
    ++summary.lengths[static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(length)) - 1)];
    begin = end;
  }
  summary.mean_tokens = static_cast<double>(corpus.tokens()) / static_cast<double>(summary.documents);
}

Status show_begin(const Corpus& corpus, CorpusSummary& summary) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(std::min(kShownTokens, corpus.tokens())));
  TROUPE_RETURN_IF_ERROR(corpus.read(0, tokens));
  if (const auto tokenizer = make_tokenizer(corpus.facts().tokenizer); tokenizer.ok()) {
    TROUPE_ASSIGN_OR_RETURN(const std::string text, (*tokenizer)->decode(tokens));
    summary.begin = absl::StrCat("\"", absl::Utf8SafeCHexEscape(text), "\"");
  } else {
    tokens.resize(std::min<std::size_t>(tokens.size(), 24));
    summary.begin = absl::StrCat("ids ", absl::StrJoin(tokens, " "));
  }
  return ok();
}

}  // namespace

StatusOr<CorpusSummary> summarize(const Corpus& corpus) {
  CorpusSummary summary;
  summary.facts = corpus.facts();
  TROUPE_RETURN_IF_ERROR(corpus.verify_content());
  TROUPE_RETURN_IF_ERROR(read_through(corpus, summary));
  measure_documents(corpus, summary);
  TROUPE_RETURN_IF_ERROR(show_begin(corpus, summary));
  return summary;
}

std::string to_text(const CorpusSummary& summary) {
  const CorpusFacts& facts = summary.facts;
  std::string text;
  absl::StrAppendFormat(&text, "%s: %s, %s tokens, %d file%s\n", facts.path, facts.format,
                        std::string(name(facts.token_type)), facts.files, facts.files == 1 ? "" : "s");
  absl::StrAppendFormat(&text, "tokens      %d\n", facts.tokens);
  absl::StrAppendFormat(&text, "documents   %d  (tokens each: shortest %d, mean %.1f, longest %d)\n",
                        summary.documents, summary.shortest_tokens, summary.mean_tokens,
                        summary.longest_tokens);
  absl::StrAppendFormat(
      &text, "vocabulary  %s, largest id seen %d\n",
      facts.vocab_size > 0 ? absl::StrCat(facts.vocab_size, " ids (", facts.tokenizer, ")") : "not recorded",
      summary.largest_token);
  absl::StrAppendFormat(&text, "content     %s\n",
                        facts.content_xxh3 ? absl::StrFormat("xxh3 %016x, as recorded", *facts.content_xxh3)
                                           : std::string("no hash recorded"));
  const std::int64_t most = *std::max_element(summary.lengths.begin(), summary.lengths.end());
  for (std::size_t k = 0; k < summary.lengths.size(); ++k) {
    if (summary.lengths[k] == 0) continue;
    const auto bar = static_cast<std::size_t>((summary.lengths[k] * 40 + most - 1) / most);
    absl::StrAppendFormat(&text, "  %12d tokens and more  %10d  %s\n", std::int64_t{1} << k,
                          summary.lengths[k], std::string(bar, '#'));
  }
  absl::StrAppend(&text, "begins with ", summary.begin, "\n");
  return text;
}

}  // namespace troupe::data
