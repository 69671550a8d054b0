#include "models/data/sample_source.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/data/shuffle.h"
#include "runtime/base/check.h"

namespace troupe::data {
namespace {

std::uint64_t fold(std::initializer_list<std::uint64_t> parts) {
  SampleHash hash;
  for (const std::uint64_t part : parts) hash.add(SampleId(static_cast<std::int64_t>(part >> 1)));
  for (const std::uint64_t part : parts) hash.add(SampleId(static_cast<std::int64_t>(part & 1)));
  return hash.value();
}

}  // namespace

StatusOr<std::int64_t> SampleSource::windows(const Corpus& corpus, const SampleOptions& options) {
  if (options.seq_len < 1 || options.seq_len >= std::numeric_limits<std::int32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("seq_len is ", options.seq_len, ", must be at least 1 and below 2^31"));
  }
  const std::int64_t count = (corpus.tokens() - 1) / options.seq_len;
  if (count >= 1) return count;
  return absl::InvalidArgumentError(absl::StrCat(
      corpus.facts().path, ": has ", corpus.tokens(), " tokens; one sample of seq_len ", options.seq_len,
      " takes ", options.seq_len + 1, "; use a longer corpus or a shorter seq_len"));
}

StatusOr<SampleSource> SampleSource::for_training(std::unique_ptr<const Corpus> corpus,
                                                  const SampleOptions& options, std::uint64_t seed,
                                                  SampleOrder order) {
  TROUPE_ASSIGN_OR_RETURN(const std::int64_t count, windows(*corpus, options));
  const auto print =
      fold({static_cast<std::uint64_t>(corpus->tokens()), corpus->facts().content_xxh3.value_or(0),
            static_cast<std::uint64_t>(options.seq_len), seed, static_cast<std::uint64_t>(order)});
  return SampleSource(std::move(corpus), options, Sampler(order, count, seed), print);
}

StatusOr<SampleSource> SampleSource::for_validation(std::unique_ptr<const Corpus> corpus,
                                                    const SampleOptions& options, std::int64_t samples) {
  TROUPE_ASSIGN_OR_RETURN(const std::int64_t count, windows(*corpus, options));
  if (samples < 1 || samples > count) {
    return absl::InvalidArgumentError(absl::StrCat(corpus->facts().path, ": validation of ", samples,
                                                   " samples (steps x batch); the corpus has ", count,
                                                   " of seq_len ", options.seq_len, "; use 1 to ", count));
  }
  const auto print =
      fold({static_cast<std::uint64_t>(corpus->tokens()), corpus->facts().content_xxh3.value_or(0),
            static_cast<std::uint64_t>(options.seq_len), 0});
  return SampleSource(std::move(corpus), options, Sampler(SampleOrder::kSequential, samples, 0), print);
}

Status SampleSource::fill(SampleId sample, const SampleSpans& out) const {
  const auto length = static_cast<std::size_t>(options_.seq_len);
  const auto fits = [&](std::span<std::int32_t> span) { return span.empty() || span.size() == length; };
  TROUPE_CHECK(out.tokens.size() == length && fits(out.targets) && fits(out.positions) &&
               fits(out.document_start))
      << "spans of " << out.tokens.size() << ", seq_len " << length;
  const std::int64_t begin = sampler_.window(sample) * options_.seq_len;
  const std::int64_t end = begin + options_.seq_len;
  TROUPE_RETURN_IF_ERROR(corpus_->read(begin, out.tokens));
  if (!out.targets.empty()) {
    std::copy(out.tokens.begin() + 1, out.tokens.end(), out.targets.begin());
    TROUPE_RETURN_IF_ERROR(corpus_->read(end, out.targets.last(1)));
  }

  // Document by document, as [start, next) of the window; without masks the window is one document.
  const bool masks = options_.document_masks;
  std::size_t start = 0;
  while (start < length) {
    const auto from = begin + static_cast<std::int64_t>(start) + 1;
    // end itself may begin a document: then the last target belongs to it.
    const std::int64_t found = masks ? corpus_->next_document_begin(from, end + 1) : end + 1;
    const auto next = static_cast<std::size_t>(std::min(found, end) - begin);
    for (std::size_t i = start; i < next; ++i) {
      if (!out.document_start.empty()) out.document_start[i] = static_cast<std::int32_t>(start);
      if (!out.positions.empty()) {
        out.positions[i] = static_cast<std::int32_t>(masks && options_.restart_positions ? i - start : i);
      }
    }
    if (found <= end && options_.mask_next_document && !out.targets.empty()) out.targets[next - 1] = kMasked;
    start = next;
  }
  return ok();
}

}  // namespace troupe::data
