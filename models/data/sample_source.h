// Fills the samples that a model trains on: windows of a corpus, by sample id.
//
// "Packed": the corpus is one stream cut into windows of T = seq_len tokens. Window i has inputs [i*T, i*T +
// T) and, as the target of each, the token after it; so neighbours share one token, and documents are cut and
// joined as they come. The last tokens that fill no window are not used. With document masks each document in
// a window is on its own: document_start tells attention how far back it may look, positions restart, and the
// first token of a document is nobody's target.
//
// Threads: any, at once; nothing changes after creating. fill() reads mapped pages, so handlers never call
// it: the storage
//   stream does.
// Owns: the corpus.
// Errors: create: kInvalidArgument when the corpus is shorter than seq_len + 1 tokens or has too few samples.
// fill: those of
//   Corpus::read (a token outside the vocabulary); the spans then hold rubbish.
// Invariants: target i is token i + 1 or kMasked (SampleSourceOnDisk.TargetsAreTheNextTokens,
// .MasksTheFirstTokenOfADocument).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "models/data/corpus.h"
#include "models/data/sampler.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"

namespace troupe::data {

inline constexpr std::int32_t kMasked = -1;  // a target that counts nothing

// Where one sample goes, each of T int32. The three last may be empty spans: not wanted.
struct SampleSpans {
  std::span<std::int32_t> tokens;
  std::span<std::int32_t> targets;         // the next token, or kMasked
  std::span<std::int32_t> positions;       // 0..T-1, or from 0 in each document
  std::span<std::int32_t> document_start;  // index in the sample of the first token of this token's document
};

struct SampleOptions {
  std::int64_t seq_len = 0;
  bool document_masks = false;
  // With document masks only:
  bool mask_next_document = true;  // the target of a document's last token (the next one's first) is kMasked
  bool restart_positions = true;
};

class SampleSource {
 public:
  // Endless epochs: in the order f(seed, epoch), or kRepeated in the corpus's own.
  static StatusOr<SampleSource> for_training(std::unique_ptr<const Corpus> corpus,
                                             const SampleOptions& options, std::uint64_t seed,
                                             SampleOrder order = SampleOrder::kShuffled);
  // The first `samples` (validation steps x batch) windows, in order: sample ids 0 .. samples - 1 at each
  // evaluation.
  static StatusOr<SampleSource> for_validation(std::unique_ptr<const Corpus> corpus,
                                               const SampleOptions& options, std::int64_t samples);

  Status fill(SampleId sample, const SampleSpans& out) const;

  const Corpus& corpus() const { return *corpus_; }
  const Sampler& sampler() const { return sampler_; }
  const SampleOptions& options() const { return options_; }
  // Saved with the cursor: sample ids mean the same after a resume only if this is the same (corpus, seq_len,
  // order, seed).
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  SampleSource(std::unique_ptr<const Corpus> corpus, const SampleOptions& options, Sampler sampler,
               std::uint64_t fingerprint)
      : corpus_(std::move(corpus)), options_(options), sampler_(sampler), fingerprint_(fingerprint) {}

  static StatusOr<std::int64_t> windows(const Corpus& corpus, const SampleOptions& options);

  std::unique_ptr<const Corpus> corpus_;
  SampleOptions options_;
  Sampler sampler_;
  std::uint64_t fingerprint_;
};

}  // namespace troupe::data
