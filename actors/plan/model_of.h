// The model that a job asks for: the preset it names, with what it gives inline on top.
//
// Errors: kInvalidArgument naming the key: unknown preset or family, sizes missing without a preset, sizes that contradict
// each other, a switch that the family does not have.
#pragma once

#include "actors/plan/job_config.h"
#include "models/model_config.h"

namespace troupe::plan {

StatusOr<models::ModelConfig> model_of(const JobConfig& job);

}  // namespace troupe::plan
