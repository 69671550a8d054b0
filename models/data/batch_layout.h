// Which samples of a step go to which replica, micro-batch and row.
//
// A step takes the next `global_batch` sample ids after its cursor (samples consumed before it). They are cut
// into slots of `micro_batch` consecutive ids; slot m * dp + r is micro-batch m of replica r. A pure
// function: no rank keeps a state, so there is none to lose when the number of replicas changes.
//
// Threads: any. Errors: create: kInvalidArgument with the nearest batch that fits.
// Invariants: each sample of a step exactly once, for every dp, CASES T06
// (BatchLayout.UsesEachSampleOnceForEveryDp); a
//   resume on another dp goes on where the cursor stands (BatchLayout.ResumesOnAnotherDp).
#pragma once

#include <cstdint>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"

namespace troupe::data {

class BatchLayout {
 public:
  // Each at least 1; global_batch a multiple of micro_batch * dp.
  static StatusOr<BatchLayout> create(std::int64_t global_batch, std::int64_t micro_batch, std::int64_t dp);

  std::int64_t global_batch() const { return global_batch_; }
  std::int64_t micro_batch() const { return micro_batch_; }
  std::int64_t dp() const { return dp_; }
  std::int64_t micro_batches() const { return global_batch_ / (micro_batch_ * dp_); }  // per replica and step
  std::int64_t slots() const { return global_batch_ / micro_batch_; }

  // Samples consumed before `step` by a run that always had this global batch.
  std::int64_t cursor(StepId step) const { return (step.value - 1) * global_batch_; }
  std::int64_t slot(MicroBatchId micro, std::int64_t replica) const;
  // Row `row` of a slot, for a step that starts at `cursor`.
  SampleId sample(std::int64_t cursor, std::int64_t slot, std::int64_t row) const;
  SampleId sample(std::int64_t cursor, MicroBatchId micro, std::int64_t replica, std::int64_t row) const {
    return sample(cursor, slot(micro, replica), row);
  }

 private:
  BatchLayout(std::int64_t global_batch, std::int64_t micro_batch, std::int64_t dp)
      : global_batch_(global_batch), micro_batch_(micro_batch), dp_(dp) {}

  std::int64_t global_batch_, micro_batch_, dp_;
};

}  // namespace troupe::data
