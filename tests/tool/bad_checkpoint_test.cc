// A run is not resumed from a checkpoint that is torn, altered, of another model or of a newer program; the folder stays as it was.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "models/checkpoint/hash.h"
#include "tests/support/tiny_job.h"
#include "tests/tool/tool_process.h"

namespace troupe::test {
namespace {

namespace fs = std::filesystem;

class BadCheckpoint : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(config()) << tiny_config(make_corpus(folder_.path(), 40), output());
    const Ended ended = train({"--training.steps=3"});
    ASSERT_EQ(ended.exit_code, 0) << ended.err;
    before_ = contents_of(output());
  }
  std::string config() const { return folder_.path() + "/tiny.toml"; }
  std::string output() const { return folder_.path() + "/out"; }
  std::string checkpoint() const { return output() + "/checkpoints/step-00000003"; }
  Ended train(std::vector<std::string> overrides) const {
    std::vector<std::string> arguments{"train", config(), "--device.threads=1"};
    arguments.insert(arguments.end(), overrides.begin(), overrides.end());
    return run_tool(arguments, folder_.path());
  }
  void expect_refused(const std::vector<std::string>& overrides, const std::vector<std::string>& said) {
    before_ = contents_of(output());
    const Ended ended = train(overrides);
    EXPECT_GT(ended.exit_code, 0) << "signal " << ended.signal << ": " << ended.err;
    for (const auto& part : said) EXPECT_NE(ended.err.find(part), std::string::npos) << "'" << part << "' is not said in: " << ended.err;
    EXPECT_TRUE(contents_of(output()) == before_) << "the folder was changed";
  }
  // The largest file of tensors.
  std::string tensors() const {
    std::string largest;
    for (const auto& entry : fs::directory_iterator(checkpoint())) {
      if (entry.path().extension() != ".safetensors") continue;
      if (largest.empty() || entry.file_size() > fs::file_size(largest)) largest = entry.path().string();
    }
    return largest;
  }

  TemporaryFolder folder_;
  std::vector<std::pair<std::string, std::string>> before_;
};

TEST_F(BadCheckpoint, OfAnotherModel) { expect_refused({"--model.hidden=64"}, {checkpoint(), "32", "64"}); }

TEST_F(BadCheckpoint, OfAnotherGlobalBatch) { expect_refused({"--training.global_batch=8"}, {checkpoint(), "training.global_batch = 8"}); }

TEST_F(BadCheckpoint, OfOtherSamples) {
  for (const char* other : {"--job.seed=8", "--training.seq_len=8", "--data.shuffle=false"}) {
    expect_refused({other, "--training.steps=6"}, {checkpoint(), "other samples", "--checkpoint.allow_other_data=true"});
  }
  const Ended ended = train({"--job.seed=8", "--training.steps=6", "--checkpoint.allow_other_data=true"});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  // CASES T09: what was overridden is said
  EXPECT_NE(ended.err.find("not as in the checkpoint: job.seed = 8"), std::string::npos) << ended.err;
  EXPECT_EQ(ended.err.find("model.hidden"), std::string::npos) << ended.err;
}

TEST_F(BadCheckpoint, Torn) {
  const std::string file = tensors();
  fs::resize_file(file, fs::file_size(file) - 5);
  expect_refused({}, {fs::path(file).filename().string()});
  EXPECT_GT(run_tool({"checkpoint", "verify", checkpoint()}, folder_.path()).exit_code, 0);
}

TEST_F(BadCheckpoint, WithAMissingFile) {
  const std::string file = tensors();
  fs::remove(file);
  expect_refused({}, {fs::path(file).filename().string()});
}

TEST_F(BadCheckpoint, WithAFlippedBit) {
  const std::string file = tensors();
  std::string bytes = read_text(file);
  bytes[bytes.size() - 100] = static_cast<char>(bytes[bytes.size() - 100] ^ 1);
  std::ofstream(file, std::ios::binary) << bytes;
  expect_refused({}, {fs::path(file).filename().string()});
  const Ended verified = run_tool({"checkpoint", "verify", checkpoint()}, folder_.path());
  EXPECT_GT(verified.exit_code, 0);
  EXPECT_NE(verified.err.find(fs::path(file).filename().string()), std::string::npos) << verified.err;
}

TEST_F(BadCheckpoint, OfANewerFormat) {
  std::string text = read_text(checkpoint() + "/manifest.json");
  const auto at = text.find("\"format_version\": 1");
  ASSERT_NE(at, std::string::npos) << text.substr(0, 300);
  text.replace(at, 19, "\"format_version\": 9");
  std::ofstream(checkpoint() + "/manifest.json", std::ios::binary) << text;
  std::ofstream(checkpoint() + "/COMPLETE", std::ios::binary) << checkpoint::hash_of(text) << "  manifest.json\n";
  expect_refused({}, {"manifest.json", "version", "9", "1"});
}

// CASES T13: without the marker it is no checkpoint; the run begins anew, and what lies there is cleared away.
TEST_F(BadCheckpoint, WithoutTheMarkerIsNone) {
  fs::remove(checkpoint() + "/COMPLETE");
  EXPECT_GT(run_tool({"checkpoint", "verify", checkpoint()}, folder_.path()).exit_code, 0);
  const Ended ended = train({});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(ended.err.find("resuming"), std::string::npos) << ended.err;
  EXPECT_EQ(read_metrics(output()).losses.size(), 6u);
}

TEST_F(BadCheckpoint, AFolderWithARunIsRefusedWithoutResume) {
  expect_refused({"--checkpoint.resume=false"}, {output(), "checkpoint.resume = false", "another folder"});
  // and an empty one is not
  const Ended fresh = train({"--checkpoint.resume=false", "--job.output=" + folder_.path() + "/fresh"});
  EXPECT_EQ(fresh.exit_code, 0) << fresh.err;
}

// The negative: unharmed, the same command resumes.
TEST_F(BadCheckpoint, AGoodOneIsResumed) {
  const Ended ended = train({});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_NE(ended.err.find("resuming after step 3"), std::string::npos) << ended.err;
  EXPECT_EQ(read_metrics(output()).losses.size(), 6u);
}

}  // namespace
}  // namespace troupe::test
