#include "models/model_config.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace troupe::models {

std::string_view name(Family family) {
  switch (family) {
    case Family::kGpt2: return "gpt2";
    case Family::kLlama: return "llama";
    case Family::kQwen2: return "qwen2";
    case Family::kQwen3: return "qwen3";
  }
  return "?";
}

StatusOr<Family> family_named(const std::string& wanted) {
  for (auto family : {Family::kGpt2, Family::kLlama, Family::kQwen2, Family::kQwen3}) {
    if (wanted == name(family)) return family;
  }
  return absl::InvalidArgumentError(absl::StrCat("model.family = \"", wanted, "\": must be one of gpt2, llama, qwen2, qwen3"));
}

Status validate(const ModelConfig& c) {
  const auto positive = [](const char* key, std::int64_t value) {
    return value > 0 ? ok() : absl::InvalidArgumentError(absl::StrCat("model.", key, " = ", value, ": must be given and positive"));
  };
  TROUPE_RETURN_IF_ERROR(positive("vocab_size", c.vocabulary));
  TROUPE_RETURN_IF_ERROR(positive("layers", c.layers));
  TROUPE_RETURN_IF_ERROR(positive("hidden", c.hidden));
  TROUPE_RETURN_IF_ERROR(positive("heads", c.heads));
  TROUPE_RETURN_IF_ERROR(positive("kv_heads", c.kv_heads));
  TROUPE_RETURN_IF_ERROR(positive("head_dim", c.head_dim));
  TROUPE_RETURN_IF_ERROR(positive("intermediate", c.intermediate));
  TROUPE_RETURN_IF_ERROR(positive("max_seq_len", c.max_seq_len));
  if (c.heads % c.kv_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat("model.heads = ", c.heads, " and model.kv_heads = ", c.kv_heads,
                                                   ": kv_heads must divide heads"));
  }
  if (c.family == Family::kGpt2 && (c.kv_heads != c.heads || c.heads * c.head_dim != c.hidden)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "model.heads = %d, model.kv_heads = %d, model.head_dim = %d, model.hidden = %d: gpt2 needs kv_heads = heads and heads * "
        "head_dim = hidden",
        c.heads, c.kv_heads, c.head_dim, c.hidden));
  }
  if (!c.learned_positions() && c.head_dim % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat("model.head_dim = ", c.head_dim, ": must be even for rotary positions"));
  }
  if (c.padded_vocabulary < c.vocabulary) {
    return absl::InvalidArgumentError(absl::StrCat("padded vocabulary ", c.padded_vocabulary, " is less than model.vocab_size = ",
                                                   c.vocabulary));
  }
  if (c.dropout < 0 || c.dropout >= 1) {
    return absl::InvalidArgumentError(absl::StrCat("model.dropout = ", c.dropout, ": must be in [0, 1)"));
  }
  return ok();
}

std::string describe(const ModelConfig& c) {
  std::string text = absl::StrFormat(
      R"({"model_type": "%s", "vocab_size": %d, "num_hidden_layers": %d, "hidden_size": %d, "num_attention_heads": %d, )"
      R"("num_key_value_heads": %d, "head_dim": %d, "intermediate_size": %d, "rms_norm_eps": %.9g, "tie_word_embeddings": %s)",
      std::string(name(c.family)), c.vocabulary, c.layers, c.hidden, c.heads, c.kv_heads, c.head_dim, c.intermediate,
      c.norm_epsilon, c.tied_embeddings ? "true" : "false");
  if (c.learned_positions()) {
    absl::StrAppend(&text, absl::StrFormat(R"(, "max_position_embeddings": %d)", c.max_seq_len));
  } else {
    absl::StrAppend(&text, absl::StrFormat(R"(, "rope_theta": %.9g)", c.rope_theta));
  }
  if (c.rope_scaling.factor != 1) {
    absl::StrAppend(&text, absl::StrFormat(R"(, "rope_scaling": {"rope_type": "llama3", "factor": %.9g, "low_freq_factor": %.9g, )"
                                           R"("high_freq_factor": %.9g, "original_max_position_embeddings": %d})",
                                           c.rope_scaling.factor, c.rope_scaling.low_frequency_factor,
                                           c.rope_scaling.high_frequency_factor, c.rope_scaling.original_max_seq_len));
  }
  return text + "}";
}

}  // namespace troupe::models
