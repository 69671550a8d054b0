// Text from a trained model: one token at a time, by temperature and top-k. For a look at what was learned, not for serving: it
// keeps no cache of keys and values and computes the window again for each token.
//
// Threads: one. Owns: its pool, stream and weights. Limits: a window of the model's max_seq_len, after which the oldest half is let go.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "models/context.h"
#include "models/model_config.h"
#include "models/parameters.h"

namespace troupe::models {

struct SamplingOptions {
  std::int64_t tokens = 200;       // at most
  double temperature = 0.8;        // 0: the most likely token
  std::int64_t top_k = 50;         // 0: all
  std::uint64_t seed = 0;
  std::int32_t stop_token = -1;    // ends the text
};

class Generator {
 public:
  Generator(const ModelConfig& config, const kernels::Table& kernels, int threads, std::int64_t max_window);
  ~Generator();

  // Host memory of one block's weights, fp32, to be filled before the first generate().
  TensorView weights(BlockIndex block) const;
  const BlockLayout& layout(BlockIndex block) const;

  // Calls `each` with every new token. Tokens of `prompt` must be below the vocabulary; an empty prompt is a bug.
  void generate(std::vector<std::int32_t> prompt, const SamplingOptions& options, const std::function<void(std::int32_t)>& each);

 private:
  struct Parts;
  void forward(const std::vector<std::int32_t>& window);
  std::int32_t sample(const SamplingOptions& options, std::int64_t index) const;

  std::unique_ptr<Parts> parts_;
};

}  // namespace troupe::models
