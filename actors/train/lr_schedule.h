// The learning rate of a step: linear warmup, then cosine, linear, warmup-stable-decay or constant. A function of the step alone,
// so it is the same after a resume (CASES T09). Threads: any; pure. Errors: none: validate() of the config has refused what has no schedule.
#pragma once

#include "actors/plan/job_config.h"
#include "runtime/base/ids.h"

namespace troupe::actors {

// `peak`, and what is returned: per update, as AdamW takes it; step from 1.
// Warmup: lr * step / warmup_steps, so the first step already moves. Then with p in [0, 1] the share of (warmup, total] that is done
// before this step: cosine: (1 + cos(pi p)) / 2, linear: 1 - p, wsd: 1, falling linearly over the last decay_ratio of total_steps; each
// between 1 and min_lr_factor. After total_steps the last value stays.
double learning_rate(const plan::LrSchedulerSection& schedule, double peak, StepId step);

}  // namespace troupe::actors
