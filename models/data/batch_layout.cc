#include "models/data/batch_layout.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "runtime/base/check.h"

namespace troupe::data {

StatusOr<BatchLayout> BatchLayout::create(std::int64_t global_batch, std::int64_t micro_batch,
                                          std::int64_t dp) {
  if (global_batch < 1 || micro_batch < 1 || dp < 1) {
    return absl::InvalidArgumentError(absl::StrCat("global batch ", global_batch, ", micro-batch ",
                                                   micro_batch, ", replicas ", dp,
                                                   ": each must be at least 1"));
  }
  // Compared by division: the product may not fit 64 bits.
  const bool fits = micro_batch <= global_batch / dp;
  if (!fits || global_batch % (micro_batch * dp) != 0) {
    const std::int64_t unit =
        dp <= std::numeric_limits<std::int64_t>::max() / micro_batch ? micro_batch * dp : 0;
    return absl::InvalidArgumentError(absl::StrCat(
        "global batch ", global_batch, " is not a multiple of micro-batch ", micro_batch, " x ", dp,
        " replicas",
        unit ? absl::StrCat("; the nearest below and above: ", std::max(unit, global_batch / unit * unit),
                            ", ", (global_batch / unit + 1) * unit)
             : std::string("; lower the micro-batch")));
  }
  return BatchLayout(global_batch, micro_batch, dp);
}

std::int64_t BatchLayout::slot(MicroBatchId micro, std::int64_t replica) const {
  TROUPE_CHECK(micro.value >= 0 && micro.value < micro_batches())
      << "micro-batch " << micro << " of " << micro_batches();
  TROUPE_CHECK(replica >= 0 && replica < dp_) << "replica " << replica << " of " << dp_;
  return micro.value * dp_ + replica;
}

SampleId BatchLayout::sample(std::int64_t cursor, std::int64_t slot, std::int64_t row) const {
  TROUPE_CHECK(cursor >= 0 && slot >= 0 && slot < slots() && row >= 0 && row < micro_batch_)
      << "cursor " << cursor << " slot " << slot << " row " << row;
  return SampleId(cursor + slot * micro_batch_ + row);
}

}  // namespace troupe::data
