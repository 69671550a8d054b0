// torchtitan v0.2.2's keys that have no counterpart here, each with what to do instead. Those that have one
// are aliases in job_schema.cc. Threads: of whoever builds the schema. Errors: none here; a refused key is
// kInvalidArgument of the file or override that has it.
#pragma once

#include "runtime/base/config.h"

namespace troupe::plan {

void refuse_torchtitan_keys(ConfigSchema& schema);

}  // namespace troupe::plan
