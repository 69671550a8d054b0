// Reads Hugging Face's config.json for the tests, in the form of transformers 4 (rope_theta and rope_scaling
// apart) and of 5 (rope_parameters).
//
// Threads: any. Errors: a file that cannot be read as such is a failed check: the files are our own.
#pragma once

#include <map>
#include <string>

#include "models/model_config.h"

namespace troupe::parity {

// The vocabulary is not padded: padded_vocabulary is the vocabulary.
models::ModelConfig hf_config(const std::string& json);

// A file of the repository, whole.
std::string file_text(const std::string& path);
// {"name": count, ..}
std::map<std::string, std::int64_t> integers_of(const std::string& json);

}  // namespace troupe::parity
