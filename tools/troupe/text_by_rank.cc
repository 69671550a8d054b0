#include "tools/troupe/text_by_rank.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace troupe::tool {

std::string rank_prefix(const actors::LocalReplicas& ranks, std::size_t rank) {
  return ranks.jobs().size() == 1 ? "" : absl::StrCat("[", rank, "] ");
}

std::string text_by_rank(const actors::LocalReplicas& ranks, absl::FunctionRef<std::string(const trace::Snapshot&)> text_of) {
  std::string all;
  for (std::size_t rank = 0; rank < ranks.jobs().size(); ++rank) {
    const std::string prefix = rank_prefix(ranks, rank);
    const std::string text = text_of(ranks.jobs()[rank]->system().probes().snapshot());
    for (const absl::string_view line : absl::StrSplit(absl::StripSuffix(text, "\n"), '\n')) absl::StrAppend(&all, prefix, line, "\n");
  }
  return all;
}

}  // namespace troupe::tool
