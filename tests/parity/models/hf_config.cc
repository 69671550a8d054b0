#include "tests/parity/models/hf_config.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/base/check.h"

namespace troupe::parity {
namespace {

using nlohmann::json;

// Absent and null are the same in config.json.
template <class T>
T get(const json& object, const char* key, T otherwise) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? otherwise : found->get<T>();
}

std::int64_t size(const json& object, const char* key) {
  const auto value = get<std::int64_t>(object, key, 0);
  TROUPE_CHECK(value > 0) << "config.json has no " << key;
  return value;
}

void read_gpt2(const json& c, models::ModelConfig& config) {
  config.layers = size(c, "n_layer");
  config.hidden = size(c, "n_embd");
  config.heads = config.kv_heads = size(c, "n_head");
  config.head_dim = config.hidden / config.heads;
  config.intermediate = get<std::int64_t>(c, "n_inner", 4 * config.hidden);
  config.max_seq_len = size(c, "n_positions");
  config.norm_epsilon = c.at("layer_norm_epsilon").get<double>();
  TROUPE_CHECK(c.at("activation_function") == "gelu_new") << c.at("activation_function").dump();
}

void read_rope(const json& c, models::ModelConfig& config) {
  const bool newer = c.contains("rope_parameters");
  const json rope = newer ? c.at("rope_parameters") : get<json>(c, "rope_scaling", json::object());
  config.rope_theta = (newer ? rope : c).at("rope_theta").get<double>();
  const auto kind = get<std::string>(rope, "rope_type", get<std::string>(rope, "type", "default"));
  if (kind == "default") return;
  TROUPE_CHECK(kind == "llama3") << "rope_type " << kind;
  config.rope_scaling = {.factor = rope.at("factor").get<double>(),
                         .low_frequency_factor = rope.at("low_freq_factor").get<double>(),
                         .high_frequency_factor = rope.at("high_freq_factor").get<double>(),
                         .original_max_seq_len = size(rope, "original_max_position_embeddings")};
}

void read_llama_like(const json& c, models::ModelConfig& config) {
  config.layers = size(c, "num_hidden_layers");
  config.hidden = size(c, "hidden_size");
  config.heads = size(c, "num_attention_heads");
  config.kv_heads = get<std::int64_t>(c, "num_key_value_heads", config.heads);
  config.head_dim = get<std::int64_t>(c, "head_dim", config.hidden / config.heads);
  config.intermediate = size(c, "intermediate_size");
  config.max_seq_len = size(c, "max_position_embeddings");
  config.norm_epsilon = c.at("rms_norm_eps").get<double>();
  TROUPE_CHECK(c.at("hidden_act") == "silu") << c.at("hidden_act").dump();
  read_rope(c, config);
}

}  // namespace

models::ModelConfig hf_config(const std::string& text) {
  const json c = json::parse(text);
  const auto family = models::family_named(c.at("model_type").get<std::string>());
  TROUPE_CHECK(family.ok()) << std::string(family.status().message());
  models::ModelConfig config;
  config.family = *family;
  config.vocabulary = config.padded_vocabulary = size(c, "vocab_size");
  config.tied_embeddings = get<bool>(c, "tie_word_embeddings", config.family == models::Family::kGpt2);
  if (config.family == models::Family::kGpt2) {
    read_gpt2(c, config);
  } else {
    read_llama_like(c, config);
  }
  return config;
}

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  TROUPE_CHECK(file.good()) << path << " cannot be read; tests run in the root of the repository";
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::map<std::string, std::int64_t> integers_of(const std::string& text) {
  return json::parse(text).get<std::map<std::string, std::int64_t>>();
}

}  // namespace troupe::parity
