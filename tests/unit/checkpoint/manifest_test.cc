#include "models/checkpoint/manifest.h"

#include <cmath>
#include <limits>

#include "tests/unit/checkpoint/sample.h"

namespace troupe::checkpoint {
namespace {

using testing::HasSubstr;

Manifest sample() {
  Manifest manifest;
  manifest.troupe_version = "0.1.0";
  manifest.facts = sample_facts(200);
  manifest.model_fingerprint = model_fingerprint(kSampleModel).value();
  manifest.shard.files = {{"model-00000.safetensors", 1000, std::string(32, 'a')}};
  manifest.shard.tensors = {
      {"w",
       TensorKind::kParameter,
       ElementType::kF32,
       {4, 8},
       {{0, 0}, {2, 8}},
       "model-00000.safetensors",
       100,
       164},
      {"w",
       TensorKind::kAdamM,
       ElementType::kBF16,
       {4, 8},
       {{0, 4}, {4, 4}},
       "model-00000.safetensors",
       164,
       196},
      {"w", TensorKind::kAdamV, ElementType::kF32, {}, {{}, {}}, "model-00000.safetensors", 196, 200}};
  return manifest;
}

std::string sample_text() { return to_text(sample()).value(); }

// The text with one passage replaced; the passage must be there.
std::string edited(const std::string& from, const std::string& to) {
  std::string text = sample_text();
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in " << text;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string refusal(const std::string& manifest) {
  return text(parse_manifest("dir/manifest.json", manifest).status());
}

TEST(Manifest, RoundTripsExactly) {
  Manifest manifest = sample();
  manifest.facts.doubles = {{"a", 0.1},
                            {"denormal", 5e-324},
                            {"minus_zero", -0.0},
                            {"large", std::numeric_limits<double>::max()},
                            {"third", 1.0 / 3},
                            {"whole", 3.0},
                            {"up", std::numeric_limits<double>::infinity()},
                            {"down", -std::numeric_limits<double>::infinity()}};
  manifest.facts.integers = {{"max", INT64_MAX}, {"min", INT64_MIN}, {"größe", 0}};
  const std::string text = to_text(manifest).value();
  const auto back = parse_manifest("m", text);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(to_text(*back).value(), text);
  const CheckpointFacts& facts = back->facts;
  EXPECT_EQ(facts.doubles, manifest.facts.doubles);
  EXPECT_TRUE(std::signbit(facts.doubles.at("minus_zero")));
  EXPECT_EQ(facts.integers, manifest.facts.integers);
  EXPECT_EQ(facts.step, StepId(200));
  EXPECT_EQ(facts.samples, 6400);
  EXPECT_EQ(facts.tokens, 819200);
  EXPECT_EQ(facts.seed, 0xfedcba9876543210u);
  EXPECT_EQ(facts.model, kSampleModel);
  EXPECT_EQ(facts.config, manifest.facts.config);
  ASSERT_EQ(back->shard.tensors.size(), 3u);
  EXPECT_EQ(back->shard.tensors[1].slice, (Slice{{0, 4}, {4, 4}}));
  EXPECT_EQ(back->shard.tensors[1].kind, TensorKind::kAdamM);
  EXPECT_EQ(back->shard.tensors[1].type, ElementType::kBF16);
  EXPECT_EQ(back->shard.tensors[1].end_bytes, 196);
}

TEST(Manifest, SavesALossThatIsNoNumber) {
  Manifest manifest = sample();
  manifest.facts.doubles = {{"loss_average", std::numeric_limits<double>::quiet_NaN()}};
  const auto back = parse_manifest("m", to_text(manifest).value());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(std::isnan(back->facts.doubles.at("loss_average")));
}

TEST(Manifest, RefusesToWriteTextThatIsNotUtf8) {
  Manifest manifest = sample();
  manifest.facts.config = "\xff";
  EXPECT_TRUE(absl::IsInvalidArgument(to_text(manifest).status()));
}

TEST(Manifest, RefusesANewerFormatNamingBoth) {
  const Status newer = parse_manifest("dir/manifest.json", R"({"format_version": 7, "other": []})").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(newer));
  EXPECT_THAT(text(newer), HasSubstr("dir/manifest.json: format_version: 7; this program reads up to 1"));
  EXPECT_THAT(refusal(edited("\"format_version\": 1", "\"format_version\": 0")),
              HasSubstr("format_version: must be 1, is 0"));
}

TEST(Manifest, NamesTheKeyThatIsWrong) {
  for (const std::string key :
       {"format_version", "troupe_version", "model", "model_fingerprint", "step", "samples", "tokens", "seed",
        "doubles", "integers", "config", "files", "tensors"}) {
    EXPECT_THAT(refusal(edited("\"" + key + "\":", "\"x\":")),
                HasSubstr("dir/manifest.json: " + key + ": missing"));
  }
  for (const std::string key :
       {"kind", "dtype", "shape", "offsets", "sizes", "file", "begin_bytes", "end_bytes"}) {
    EXPECT_THAT(refusal(edited("\"" + key + "\":", "\"x\":")),
                HasSubstr("dir/manifest.json: tensors[0]." + key + ": missing"));
  }
  const std::vector<std::array<std::string, 3>> wrong{
      {"\"step\": 200", "\"step\": \"200\"", "step: must be a whole number of 64 bits, is \"200\""},
      {"\"step\": 200", "\"step\": 200.0", "step: must be a whole number"},
      {"\"step\": 200", "\"step\": -1", "step: must be at least 0, is -1"},
      {"\"step\": 200", "\"step\": 9223372036854775808", "step: must be a whole number"},
      {"\"step\": 200", "\"step\": 200, \"step\": 200", "\"step\" appears twice"},
      {"\"step\": 200", "\"step\": 200, \"stop\": 1", "stop: no such key in format 1"},
      {"\"seed\": ", "\"seed\": -", "seed: must be a whole number from 0"},
      {"\"loss_average\": 2.75", "\"loss_average\": \"2.75\"", "doubles.loss_average: must be a number"},
      {"\"skipped_steps\": 3", "\"skipped_steps\": 0.5", "integers.skipped_steps: must be a whole number"},
      {"\"bytes\": 1000", "\"bytes\": 180",
       "tensors[1].end_bytes: must be between begin_bytes 164 and the file's 180"},
      {"\"name\": \"model-00000.safetensors\"", "\"name\": \"../model\"",
       "files[0].name: must be a file name without folders"},
      {"\"xxh3_128\": \"a", "\"xxh3_128\": \"A", "files[0].xxh3_128: must be 32 digits"},
      {"\"file\": \"model-00000", "\"file\": \"model-00001", "tensors[0].file: must be one of the files"},
      {"\"kind\": \"adam_m\"", "\"kind\": \"adam\"", "tensors[1].kind: must be \"parameter\""},
      {"\"dtype\": \"BF16\"", "\"dtype\": \"bf16\"", "tensors[1].dtype: must be a safetensors dtype"},
      {"\"begin_bytes\": 100", "\"begin_bytes\": 101", "tensors[0].end_bytes: must be begin_bytes + 64"},
      {"llama", "gpt", "model_fingerprint: must be that of the key model"},
  };
  for (const auto& [from, to, message] : wrong)
    EXPECT_THAT(refusal(edited(from, to)), HasSubstr(message)) << to;
  EXPECT_THAT(refusal("{"), HasSubstr("dir/manifest.json: parse error at line 1"));
  EXPECT_THAT(refusal("[]"), HasSubstr("dir/manifest.json: : must be an object"));
}

TEST(Manifest, RefusesEveryPrefixAndSurvivesEveryFlip) {
  const std::string whole = sample_text();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(parse_manifest("m", whole.substr(0, length)).ok());
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      (void)parse_manifest("m", flipped);
    }
  }
}

TEST(Manifest, FingerprintMindsValuesNotLayout) {
  const std::string hash = model_fingerprint(R"({"a": 1, "b": [2]})").value();
  EXPECT_EQ(model_fingerprint("{\"b\":[2],\n\"a\":1}").value(), hash);
  EXPECT_NE(model_fingerprint(R"({"a": 1, "b": [3]})").value(), hash);
  EXPECT_FALSE(model_fingerprint("[1]").ok());
  EXPECT_FALSE(model_fingerprint("{").ok());
}

TEST(Manifest, NamesTheFirstDifferenceOfTwoModels) {
  EXPECT_EQ(first_difference(R"({"a": 1, "theta": 1e4})", R"({"theta": 5e5, "a": 1})"),
            "theta: 10000.0 here, 500000.0 there");
  EXPECT_EQ(first_difference(R"({"a": 1})", R"({"a": 1, "b": 2})"), "b: nothing here, 2 there");
  EXPECT_EQ(first_difference(R"({"a": 1})", R"({"a":1})"), "");
}

TEST(ShardRecord, TravelsAsText) {
  const ShardRecord shard = sample().shard;
  const auto back = parse_shard_record("rank 3", to_text(shard).value());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(to_text(*back).value(), to_text(shard).value());
  EXPECT_THAT(text(parse_shard_record("rank 3", R"({"files": []})").status()),
              HasSubstr("rank 3: tensors: missing"));
  EXPECT_THAT(text(parse_shard_record("rank 3", R"({"files": {}, "tensors": []})").status()),
              HasSubstr("rank 3: files: must be an array"));
}

}  // namespace
}  // namespace troupe::checkpoint
