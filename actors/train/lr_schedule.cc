#include "actors/train/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace troupe::actors {

double learning_rate(const plan::LrSchedulerSection& s, double peak, StepId step) {
  const double at = static_cast<double>(step.value);
  const double warmup = static_cast<double>(s.warmup_steps);
  if (at <= warmup) return peak * at / warmup;
  const double total = std::max(static_cast<double>(s.total_steps), warmup + 1);
  const double done = std::clamp((at - 1 - warmup) / (total - warmup), 0.0, 1.0);
  double share = 1;
  switch (s.decay) {
    case plan::Decay::kCosine: share = 0.5 * (1 + std::cos(std::numbers::pi * done)); break;
    case plan::Decay::kLinear: share = 1 - done; break;
    case plan::Decay::kWsd: {
      const double falling = std::max(1.0, s.decay_ratio.value_or(plan::kDefaultDecayRatio) * total);
      share = std::clamp((total - (at - 1)) / falling, 0.0, 1.0);
      break;
    }
    case plan::Decay::kConstant: break;
  }
  return peak * (s.min_lr_factor + (1 - s.min_lr_factor) * share);
}

}  // namespace troupe::actors
