#include "actors/plan/model_of.h"

#include "absl/strings/str_cat.h"
#include "models/presets.h"

namespace troupe::plan {
namespace {

template <class To, class From>
void override_with(To& value, const std::optional<From>& given) {
  if (given) value = static_cast<To>(*given);
}

Status check_switch(const char* key, const std::string& given, const std::string& has, std::string_view family) {
  if (given == has) return ok();
  return absl::InvalidArgumentError(
      absl::StrCat("model.", key, " = ", given, ": family ", std::string(family), " has ", has, "; leave the key out or choose another family"));
}

}  // namespace

StatusOr<models::ModelConfig> model_of(const JobConfig& job) {
  const auto& given = job.model;
  models::ModelConfig model;
  if (!given.name.empty()) {
    TROUPE_ASSIGN_OR_RETURN(model, models::preset(given.name));
  } else if (!given.family) {
    return absl::InvalidArgumentError("[model] has neither name nor family: name a preset (model.name = \"byte-llama-7m\") or give "
                                      "model.family and the sizes");
  }
  if (given.family) {
    TROUPE_ASSIGN_OR_RETURN(model.family, models::family_named(*given.family));
    if (given.name.empty()) {
      model.tied_embeddings = model.family == models::Family::kGpt2;
      model.norm_epsilon = model.family == models::Family::kQwen2 || model.family == models::Family::kQwen3 ? 1e-6 : 1e-5;
    }
  }
  override_with(model.vocabulary, given.vocab_size);
  override_with(model.layers, given.layers);
  override_with(model.hidden, given.hidden);
  override_with(model.heads, given.heads);
  if (given.name.empty() && !given.kv_heads) model.kv_heads = model.heads;
  override_with(model.kv_heads, given.kv_heads);
  if (given.head_dim) {
    model.head_dim = *given.head_dim;
  } else if (given.hidden || given.heads) {
    if (model.heads <= 0 || model.hidden % model.heads != 0) {
      return absl::InvalidArgumentError(absl::StrCat("model.hidden = ", model.hidden, " and model.heads = ", model.heads,
                                                     ": heads must divide hidden, or give model.head_dim"));
    }
    model.head_dim = model.hidden / model.heads;
  }
  if (given.intermediate) {
    model.intermediate = *given.intermediate;
  } else if (given.name.empty() && model.family == models::Family::kGpt2) {
    model.intermediate = 4 * model.hidden;
  }
  override_with(model.max_seq_len, given.max_seq_len);
  if (model.max_seq_len == 0) model.max_seq_len = job.training.seq_len;
  override_with(model.norm_epsilon, given.norm_epsilon);
  override_with(model.rope_theta, given.rope_theta);
  override_with(model.tied_embeddings, given.tied_embeddings);
  override_with(model.dropout, given.dropout);
  override_with(model.init_std, given.init_std);

  auto& scaling = model.rope_scaling;
  if (given.rope_scaling.kind && *given.rope_scaling.kind == "none") scaling = {};
  override_with(scaling.factor, given.rope_scaling.factor);
  override_with(scaling.low_frequency_factor, given.rope_scaling.low_freq_factor);
  override_with(scaling.high_frequency_factor, given.rope_scaling.high_freq_factor);
  override_with(scaling.original_max_seq_len, given.rope_scaling.original_max_seq_len);

  const std::int64_t multiple = given.pad_vocab_multiple.value_or(64);
  model.padded_vocabulary = (model.vocabulary + multiple - 1) / multiple * multiple;

  TROUPE_RETURN_IF_ERROR(models::validate(model));
  const auto family = models::name(model.family);
  if (given.qkv_bias) {
    TROUPE_RETURN_IF_ERROR(check_switch("qkv_bias", *given.qkv_bias ? "true" : "false", model.qkv_bias() ? "true" : "false", family));
  }
  if (given.activation) {
    TROUPE_RETURN_IF_ERROR(check_switch("activation", *given.activation, model.gated_mlp() ? "silu" : "gelu_tanh", family));
  }
  if (job.training.seq_len > model.max_seq_len) {
    return absl::InvalidArgumentError(absl::StrCat("training.seq_len = ", job.training.seq_len, " is more than model.max_seq_len = ",
                                                   model.max_seq_len, ": shorten the sequence or raise model.max_seq_len"));
  }
  return model;
}

}  // namespace troupe::plan
