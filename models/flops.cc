#include "models/flops.h"

namespace troupe::models {

std::int64_t matmul_parameters(const ModelConfig& c) {
  const std::int64_t per_layer = c.hidden * (c.qkv_width() + c.attention_width() + c.up_width() + c.intermediate);
  return c.layers * per_layer + c.vocabulary * c.hidden;
}

double training_flops_per_token(const ModelConfig& c, std::int64_t seq_len) {
  return 6.0 * static_cast<double>(matmul_parameters(c)) +
         6.0 * static_cast<double>(c.layers) * static_cast<double>(seq_len) * static_cast<double>(c.attention_width());
}

std::string training_flops_formula() {
  return "tokens * (6 * matmul_parameters + 6 * layers * seq_len * heads * head_dim), causal attention counted half";
}

}  // namespace troupe::models
