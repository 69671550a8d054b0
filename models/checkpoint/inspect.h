// What `troupe checkpoint verify` and `troupe checkpoint inspect` say about a folder.
//
// Work for a storage stream. Threads: any. Errors: those of CheckpointReader::open; kDataLoss naming the file
// that differs.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace troupe::checkpoint {

// Reads every byte: each file hashes to what was saved, its own header agrees with the manifest, and the
// slices of every tensor tile it.
Status verify(const std::string& folder);

// Text for people: run, step, cursor, files, tensors with their shapes and slices.
StatusOr<std::string> describe(const std::string& folder);

}  // namespace troupe::checkpoint
