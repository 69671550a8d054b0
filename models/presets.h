// Models by name, from a test size to Llama-3 405B. Sizes are those of the published config.json files.
#pragma once

#include <string>
#include <vector>

#include "models/model_config.h"

namespace troupe::models {

// Errors: kInvalidArgument lists the known names. The vocabulary is not padded yet.
StatusOr<ModelConfig> preset(const std::string& name);
std::vector<std::string> preset_names();

}  // namespace troupe::models
