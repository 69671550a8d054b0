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
// The same by `parts` processes together, of which this is number `part`: it reads its share of the files, all of them read them all.
// Shares are equal in bytes, as far as files are not split, and in the files' order: who goes on with as many processes as wrote the
// checkpoint reads about what it wrote, which is what it loads.
Status verify_part(const std::string& folder, int part, int parts);

// Text for people: run, step, cursor, files, tensors with their shapes and slices.
StatusOr<std::string> describe(const std::string& folder);

}  // namespace troupe::checkpoint
