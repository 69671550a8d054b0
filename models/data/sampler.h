// The order of training: which window of the corpus a sample id stands for.
//
// A sample id counts from the run's start and never restarts: id s is position s % N of epoch s / N, and each
// epoch has its own order f(seed, epoch). So the whole state of reading data is one number, the samples
// consumed: a cursor counted in samples, not in steps or micro-batches, global and not per rank.
//
// Threads: any; nothing changes. Errors: an id that does not exist is a bug (TROUPE_CHECK).
// Invariants: ids after a resume are those of an uninterrupted run, CASES T01 T02 T03 (SamplerResume.*);
// every epoch is
//   complete and reshuffled, CASES T01 T08 (Sampler.EveryEpochIsCompleteAndReshuffled).
#pragma once

#include <cstdint>

#include "runtime/base/ids.h"

namespace troupe::data {

enum class SampleOrder {
  kShuffled,    // training
  kRepeated,    // training without shuffling: the same order in each epoch
  kSequential,  // validation: the same first samples at each evaluation
};

class Sampler {
 public:
  Sampler(SampleOrder order, std::int64_t samples_per_epoch, std::uint64_t seed);

  std::int64_t samples_per_epoch() const { return samples_per_epoch_; }
  std::int64_t epoch(SampleId sample) const { return sample.value / samples_per_epoch_; }
  // In [0, samples_per_epoch()). Sequential ids end with the samples: one beyond is a bug.
  std::int64_t window(SampleId sample) const;

 private:
  SampleOrder order_;
  std::int64_t samples_per_epoch_;
  std::uint64_t seed_;
};

// A running hash of sample ids in order: two runs that saw the same samples have the same value. Its value
// can be saved and taken up again.
class SampleHash {
 public:
  explicit SampleHash(std::uint64_t value = 0) : value_(value) {}
  void add(SampleId sample);
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_;
};

}  // namespace troupe::data
