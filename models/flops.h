// Floating-point operations of training, counted as the field does, and the formula as text.
#pragma once

#include <string>

#include "models/model_config.h"

namespace troupe::models {

// Parameters that take part in a matrix product for each token: everything but embedding look-ups, norms and biases; a tied
// embedding once, as the head.
std::int64_t matmul_parameters(const ModelConfig& config);

// Forward and backward of one token in a sequence of `seq_len`: 6 * matmul parameters + 6 * L * T * H * D. The second term is the two
// attention products with the causal half counted: forward 2 * (2 T H D) / 2, backward twice that. Padding rows, recomputation,
// optimizer and element-wise work are not counted. (Chowdhery et al. 2022, appendix B, with the causal half.)
double training_flops_per_token(const ModelConfig& config, std::int64_t seq_len);
std::string training_flops_formula();

}  // namespace troupe::models
