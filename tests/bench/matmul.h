// The matrix products of a model's training step, and what is built from them, over the best product of the
// same run.
//
// "Roofline" here is measured, not on paper: the fastest of the model's own product shapes in either type, by
// the same threads in the same run. A training step cannot be faster than all its products at that rate.
// Rounds are interleaved (every operation once, then again) and a rate is that of the median time, so that
// other work on the machine falls on all alike.
//
// Threads: one; it starts a stream of its own. Limits: GPT-2 124M at 2048 tokens takes about 1.2 GiB and some
// 3 s a round.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/bench/row.h"

namespace troupe::bench {

struct MatmulShapes {
  std::int64_t rows = 4, tokens = 512, channels = 768, hidden = 3072, vocabulary = 50257,
               padded_vocabulary = 50304, chunk_tokens = 512;
  int heads = 12, rounds = 5;
};

// Rows: matmul/roofline in GFLOP/s; then each product, the loss head and attention as a share of it.
std::vector<BenchRow> matmul_rows(int threads, const MatmulShapes& shapes = {});

}  // namespace troupe::bench
