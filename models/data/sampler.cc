#include "models/data/sampler.h"

#include "models/data/shuffle.h"
#include "runtime/base/check.h"

namespace troupe::data {

Sampler::Sampler(SampleOrder order, std::int64_t samples_per_epoch, std::uint64_t seed)
    : order_(order), samples_per_epoch_(samples_per_epoch), seed_(seed) {
  TROUPE_CHECK(samples_per_epoch >= 1 && samples_per_epoch <= Shuffle::kMaxSize) << samples_per_epoch;
}

std::int64_t Sampler::window(SampleId sample) const {
  TROUPE_CHECK(sample.value >= 0) << "sample " << sample;
  TROUPE_CHECK(order_ != SampleOrder::kSequential || sample.value < samples_per_epoch_)
      << "sample " << sample << " of " << samples_per_epoch_ << " for validation";
  const std::int64_t position = sample.value % samples_per_epoch_;
  return order_ == SampleOrder::kShuffled ? Shuffle(samples_per_epoch_, seed_, epoch(sample))(position) : position;
}

void SampleHash::add(SampleId sample) {
  // The finalizer of SplitMix64 (Steele, Lea & Flood 2014) over the sum, so that order counts.
  std::uint64_t x = value_ * 0x9E3779B97F4A7C15 + static_cast<std::uint64_t>(sample.value) + 1;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  value_ = x ^ (x >> 31);
}

}  // namespace troupe::data
