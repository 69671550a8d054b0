// Text about the ranks that are in this process. Where there are several, each line has its rank before it, as `troupe launch` puts it before
// the lines of a process.
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "actors/train/local_replicas.h"
#include "runtime/trace/snapshot.h"

namespace troupe::tool {

// "[1] "; empty where there is one.
std::string rank_prefix(const actors::LocalReplicas& ranks, std::size_t rank);

// What the actors of each rank do, as `text_of` puts it.
std::string text_by_rank(const actors::LocalReplicas& ranks, absl::FunctionRef<std::string(const trace::Snapshot&)> text_of);

}  // namespace troupe::tool
