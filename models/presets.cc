#include "models/presets.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace troupe::models {
namespace {

struct Preset {
  const char* name;
  ModelConfig config;
};

ModelConfig gpt2(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  return {.family = Family::kGpt2, .vocabulary = 50257, .layers = layers, .hidden = hidden, .heads = heads, .kv_heads = heads,
          .head_dim = hidden / heads, .intermediate = 4 * hidden, .max_seq_len = 1024, .norm_epsilon = 1e-5,
          .rope_scaling = {}, .tied_embeddings = true};
}

ModelConfig llama2(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t kv_heads, std::int64_t intermediate) {
  return {.family = Family::kLlama, .vocabulary = 32000, .layers = layers, .hidden = hidden, .heads = heads, .kv_heads = kv_heads,
          .head_dim = hidden / heads, .intermediate = intermediate, .max_seq_len = 4096, .norm_epsilon = 1e-5,
          .rope_theta = 10000, .rope_scaling = {}};
}

ModelConfig llama3(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t intermediate, double scaling,
                   bool tied = false) {
  return {.family = Family::kLlama, .vocabulary = 128256, .layers = layers, .hidden = hidden, .heads = heads, .kv_heads = 8,
          .head_dim = hidden / heads, .intermediate = intermediate, .max_seq_len = 131072, .norm_epsilon = 1e-5,
          .rope_theta = 500000, .rope_scaling = {.factor = scaling}, .tied_embeddings = tied};
}

ModelConfig qwen2(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t kv_heads, std::int64_t intermediate,
                  std::int64_t vocabulary, bool tied) {
  return {.family = Family::kQwen2, .vocabulary = vocabulary, .layers = layers, .hidden = hidden, .heads = heads,
          .kv_heads = kv_heads, .head_dim = hidden / heads, .intermediate = intermediate, .max_seq_len = 131072,
          .norm_epsilon = 1e-6, .rope_theta = 1e6, .rope_scaling = {}, .tied_embeddings = tied};
}

ModelConfig qwen3(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t intermediate, bool tied) {
  return {.family = Family::kQwen3, .vocabulary = 151936, .layers = layers, .hidden = hidden, .heads = heads, .kv_heads = 8,
          .head_dim = 128, .intermediate = intermediate, .max_seq_len = 40960, .norm_epsilon = 1e-6, .rope_theta = 1e6,
          .rope_scaling = {}, .tied_embeddings = tied};
}

// Byte models: 256 values and the end-of-document token.
ModelConfig byte_llama(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t kv_heads,
                       std::int64_t intermediate) {
  auto config = llama2(layers, hidden, heads, kv_heads, intermediate);
  config.vocabulary = 257;
  config.tied_embeddings = true;
  return config;
}

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = {
      {"test-llama", byte_llama(4, 64, 4, 2, 160)},
      {"byte-llama-7m", byte_llama(8, 256, 8, 4, 688)},
      {"gpt2-124m", gpt2(12, 768, 12)},
      {"gpt2-355m", gpt2(24, 1024, 16)},
      {"gpt2-774m", gpt2(36, 1280, 20)},
      {"gpt2-1.5b", gpt2(48, 1600, 25)},
      {"llama2-7b", llama2(32, 4096, 32, 32, 11008)},
      {"llama2-13b", llama2(40, 5120, 40, 40, 13824)},
      {"llama2-70b", llama2(80, 8192, 64, 8, 28672)},
      {"llama3-1b", llama3(16, 2048, 32, 8192, 32, true)},
      {"llama3-3b", llama3(28, 3072, 24, 8192, 32, true)},
      {"llama3-8b", llama3(32, 4096, 32, 14336, 8)},
      {"llama3-70b", llama3(80, 8192, 64, 28672, 8)},
      {"llama3-405b", llama3(126, 16384, 128, 53248, 8)},
      {"qwen2-0.5b", qwen2(24, 896, 14, 2, 4864, 151936, true)},
      {"qwen2-1.5b", qwen2(28, 1536, 12, 2, 8960, 151936, true)},
      {"qwen2-7b", qwen2(28, 3584, 28, 4, 18944, 152064, false)},
      {"qwen3-0.6b", qwen3(28, 1024, 16, 3072, true)},
      {"qwen3-1.7b", qwen3(28, 2048, 16, 6144, true)},
      {"qwen3-8b", qwen3(36, 4096, 32, 12288, false)},
  };
  return all;
}

}  // namespace

StatusOr<ModelConfig> preset(const std::string& name) {
  for (const auto& candidate : presets()) {
    if (name == candidate.name) return candidate.config;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("model.name = \"", name, "\": no such preset; known: ", absl::StrJoin(preset_names(), ", ")));
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const auto& candidate : presets()) names.emplace_back(candidate.name);
  return names;
}

}  // namespace troupe::models
