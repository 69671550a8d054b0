// A small model's checkpoint and a folder of one's own, for the tests of this folder.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "models/checkpoint/writer.h"

namespace troupe::checkpoint {

// Gone with its content at the end of the test. In memory where the system has such a place: hundreds of
// saves that sync take minutes on a slow disk. kOnDisk for what depends on the file system.
enum class Where { kInMemory, kOnDisk };
class TestFolder {
 public:
  explicit TestFolder(Where where = Where::kInMemory) {
    const bool in_memory = where == Where::kInMemory && access("/dev/shm", W_OK) == 0;
    std::string name = (in_memory ? "/dev/shm/" : testing::TempDir()) + "checkpoint-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void put(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
  ASSERT_TRUE(file.good()) << path;
}

inline std::vector<float> counted(std::int64_t count, float first) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), first);
  return values;
}

inline const std::string kSampleModel = R"({"hidden_size": 8, "model_type": "llama"})";

inline CheckpointFacts sample_facts(std::int64_t step) {
  CheckpointFacts facts;
  facts.model = kSampleModel;
  facts.step = StepId(step);
  facts.samples = step * 32;
  facts.tokens = step * 32 * 128;
  facts.seed = 0xfedcba9876543210u;
  facts.doubles = {{"loss_average", 2.75}};
  facts.integers = {{"skipped_steps", 3}};
  facts.config = "[train]\nsteps = 10\n";
  return facts;
}

// Two parameters and the moments of one; every value says which step it is of (CASES T15).
struct SampleTensors {
  explicit SampleTensors(std::int64_t step)
      : weight(counted(48, static_cast<float>(step) * 1000)),
        norm(counted(8, static_cast<float>(step) * 1000 + 100)),
        first(counted(48, static_cast<float>(step) * 1000 + 200)),
        second(counted(48, static_cast<float>(step) * 1000 + 300)) {}

  std::vector<TensorSource> sources() const {
    const auto source = [](const char* name, TensorKind kind, Shape shape, const std::vector<float>& values) {
      return TensorSource{name,  kind,         ElementType::kF32,
                          shape, whole(shape), std::as_bytes(std::span(values))};
    };
    return {source("model.layers.0.mlp.up_proj.weight", TensorKind::kParameter, {6, 8}, weight),
            source("model.norm.weight", TensorKind::kParameter, {8}, norm),
            source("model.layers.0.mlp.up_proj.weight", TensorKind::kAdamM, {6, 8}, first),
            source("model.layers.0.mlp.up_proj.weight", TensorKind::kAdamV, {6, 8}, second)};
  }

  std::vector<float> weight, norm, first, second;
};

inline StatusOr<std::string> save_sample(const Disk& disk, const std::string& out, std::int64_t step) {
  const SampleTensors tensors(step);
  return save_checkpoint(disk, out, sample_facts(step), tensors.sources());
}

inline std::string text(const Status& status) { return std::string(status.message()); }

}  // namespace troupe::checkpoint
