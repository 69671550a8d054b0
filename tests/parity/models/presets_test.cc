// Presets against published configurations and the parameter counts that the reference library has for them.
#include "models/presets.h"

#include <gtest/gtest.h>

#include "models/flops.h"
#include "models/parameters.h"
#include "tests/parity/models/hf_config.h"

namespace troupe::parity {
namespace {

const std::string kConfigs = "tests/parity/golden/configs/";

// Published name -> ours.
const std::map<std::string, std::string> kNames = {
    {"gpt2-124m", "gpt2-124m"},   {"gpt2-350m", "gpt2-355m"},   {"gpt2-774m", "gpt2-774m"},
    {"gpt2-1558m", "gpt2-1.5b"},  {"llama2-7b", "llama2-7b"},   {"llama2-70b", "llama2-70b"},
    {"llama3-8b", "llama3-8b"},   {"llama3-70b", "llama3-70b"}, {"llama3.1-405b", "llama3-405b"},
    {"llama3.2-1b", "llama3-1b"}, {"qwen2-0.5b", "qwen2-0.5b"}, {"qwen2-7b", "qwen2-7b"},
    {"qwen3-0.6b", "qwen3-0.6b"}, {"qwen3-8b", "qwen3-8b"},
};

models::ModelConfig preset(const std::string& name) {
  auto config = models::preset(name);
  TROUPE_CHECK(config.ok()) << std::string(config.status().message());
  config->padded_vocabulary = config->vocabulary;
  return *config;
}

TEST(Presets, HaveAsManyParametersAsTheReference) {
  const auto counts = integers_of(file_text(kConfigs + "parameters.json"));
  EXPECT_EQ(counts.size(), kNames.size());
  for (const auto& [published, count] : counts) {
    ASSERT_TRUE(kNames.contains(published)) << published;
    const auto config = preset(kNames.at(published));
    EXPECT_EQ(models::parameter_count(config), count) << published;
    EXPECT_EQ(models::parameter_count(hf_config(file_text(kConfigs + published + ".json"))), count)
        << published;
  }
}

TEST(Presets, CountNoPaddingRow) {
  auto config = preset("gpt2-124m");
  config.padded_vocabulary = 50304;
  EXPECT_EQ(models::parameter_count(config), 124439808);
}

TEST(Presets, AreThePublishedConfigurations) {
  for (const auto& [published, ours] : kNames) {
    auto theirs = hf_config(file_text(kConfigs + published + ".json"));
    const auto config = preset(ours);
    if (published == "llama3-8b" || published == "llama3-70b") {
      // Ours are the 3.1 releases: the same model with its positions stretched as those of the 405B are.
      const auto stretched = hf_config(file_text(kConfigs + "llama3.1-405b.json"));
      theirs.rope_scaling = stretched.rope_scaling;
      theirs.max_seq_len = stretched.max_seq_len;
    }
    EXPECT_TRUE(models::validate(config).ok()) << ours;
    EXPECT_EQ(models::describe(config), models::describe(theirs)) << ours;
    EXPECT_EQ(config.max_seq_len, theirs.max_seq_len) << ours;
  }
}

TEST(Presets, ConfigsOfBothFormsSayTheSame) {
  for (const auto* name : {"llama3.1-405b", "llama3.2-1b", "qwen3-0.6b"}) {
    EXPECT_EQ(models::describe(hf_config(file_text(kConfigs + name + ".json"))),
              models::describe(hf_config(file_text(kConfigs + name + ".v4.json"))));
  }
}

TEST(Presets, AnUnknownNameIsRefusedWithTheKnownOnes) {
  const auto config = models::preset("gpt3");
  ASSERT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string message(config.status().message());
  EXPECT_NE(message.find("gpt3"), std::string::npos) << message;
  EXPECT_NE(message.find("llama3-405b"), std::string::npos) << message;
}

// By hand, GPT-2 124M: a layer's matrices are 768 x 2304 + 768 x 768 + 2 x 768 x 3072 = 7,077,888; twelve of
// them and the head 50257 x 768 = 38,597,376 are 123,532,032 parameters in products, 741,192,192 operations.
// Attention at T 1024: 6 x 12 x 1024 x 768 = 56,623,104; at T 512 half of it.
TEST(Flops, OfGpt2AreThoseCountedByHand) {
  auto config = preset("gpt2-124m");
  EXPECT_EQ(models::matmul_parameters(config), 123532032);
  EXPECT_EQ(models::training_flops_per_token(config, 1024), 797815296.0);
  EXPECT_EQ(models::training_flops_per_token(config, 512), 769503744.0);
  config.padded_vocabulary = 50304;  // padding rows are not counted
  EXPECT_EQ(models::training_flops_per_token(config, 1024), 797815296.0);
}

// Grouped queries, three MLP matrices, an untied head. Llama-3 8B: a layer is 4096 x (4096 + 2 x 1024) + 4096
// x 4096 + 3 x 4096 x 14336 = 218,103,808; 32 of them and 128256 x 4096 are 7,504,658,432. Attention at T
// 8192: 6 x 32 x 8192 x 4096 = 6,442,450,944.
TEST(Flops, OfLlama3AreThoseCountedByHand) {
  const auto config = preset("llama3-8b");
  EXPECT_EQ(models::matmul_parameters(config), 7504658432);
  EXPECT_EQ(models::training_flops_per_token(config, 8192), 6.0 * 7504658432 + 6442450944.0);
}

}  // namespace
}  // namespace troupe::parity
