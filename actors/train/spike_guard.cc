#include "actors/train/spike_guard.h"

#include <cmath>

#include "absl/strings/str_format.h"

namespace troupe::actors {

std::string SpikeGuard::judge(double loss, double grad_norm) {
  std::string reason;
  if (!std::isfinite(loss)) {
    reason = absl::StrFormat("loss is %g", loss);
  } else if (!std::isfinite(grad_norm)) {
    reason = absl::StrFormat("gradient norm is %g", grad_norm);
  } else if (settings_.factor > 0 && averaged_ >= kWarmup && loss > settings_.factor * average_) {
    reason = absl::StrFormat("loss %.4g is more than %g times its average %.4g", loss, settings_.factor, average_);
  }
  if (!reason.empty()) {
    ++in_a_row_;
    return reason;
  }
  in_a_row_ = 0;
  // The first losses are averaged plainly, so that the start does not weigh for ever.
  const double keep = std::min(settings_.ema, static_cast<double>(averaged_) / static_cast<double>(averaged_ + 1));
  average_ = keep * average_ + (1 - keep) * loss;
  ++averaged_;
  return reason;
}

}  // namespace troupe::actors
