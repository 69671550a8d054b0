#include "models/checkpoint/reader.h"

#include <algorithm>

#include "models/checkpoint/directory.h"
#include "models/checkpoint/safetensors.h"
#include "tests/unit/checkpoint/sample.h"

namespace troupe::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A source cut out of a row-major tensor, with memory of its own.
struct Cut {
  Slice slice;
  std::vector<float> values;
};

Cut cut(const std::vector<float>& tensor, const Shape& shape, const Slice& slice) {
  Cut result{slice, std::vector<float>(static_cast<std::size_t>(*element_count(slice.sizes)))};
  for (std::size_t i = 0; i < result.values.size(); ++i) {  // element by element: not the code under test
    std::int64_t rest = static_cast<std::int64_t>(i), flat = 0, stride = 1;
    for (std::size_t d = shape.size(); d-- > 0;) {
      flat += (rest % slice.sizes[d] + slice.offsets[d]) * stride;
      rest /= slice.sizes[d];
      stride *= shape[d];
    }
    result.values[i] = tensor[static_cast<std::size_t>(flat)];
  }
  return result;
}

std::vector<TensorSource> sources_of(const std::vector<Cut>& cuts, const Shape& shape, TensorKind kind) {
  std::vector<TensorSource> sources;
  for (const Cut& c : cuts) {
    sources.push_back({"w", kind, ElementType::kF32, shape, c.slice, std::as_bytes(std::span(c.values))});
  }
  return sources;
}

// Every slicing is saved by one process and by one process per slice.
TEST(Reader, LoadsAnySliceHoweverItWasSaved) {  // CASES T18, T21
  const Shape shape{6, 8};
  const std::vector<float> tensor = counted(48, 1);
  std::vector<std::vector<Slice>> slicings{
      {whole(shape)},
      {{{0, 0}, {2, 8}}, {{2, 0}, {4, 8}}},
      {{{0, 0}, {6, 3}}, {{0, 3}, {6, 5}}},
      {{{0, 0}, {3, 4}}, {{0, 4}, {3, 4}}, {{3, 0}, {3, 4}}, {{3, 4}, {3, 4}}}};
  std::vector<Slice> zero;  // ZeRO over 3: flat ranges, then in the wrong order
  for (const auto& [begin, count] : {std::pair{0, 13}, {13, 20}, {33, 15}}) {
    for (const Slice& slice : cover_flat_range(shape, begin, count)) zero.push_back(slice);
  }
  slicings.push_back(zero);
  std::ranges::reverse(zero);
  slicings.push_back(zero);

  const Disk disk;
  for (const bool one_process : {true, false}) {
    for (const std::vector<Slice>& slicing : slicings) {
      TestFolder out;
      std::vector<Cut> cuts;
      for (const Slice& slice : slicing) cuts.push_back(cut(tensor, shape, slice));
      auto save = CheckpointSave::begin(disk, out.path(), StepId(1));
      ASSERT_TRUE(save.ok()) << save.status();
      for (const TensorKind kind : {TensorKind::kParameter, TensorKind::kAdamV}) {
        const std::vector<TensorSource> sources = sources_of(cuts, shape, kind);
        const int base = kind == TensorKind::kParameter ? 0 : 100;
        if (one_process) {
          save->add(write_shard(disk, save->folder(), base, sources).value());
        } else {
          for (std::size_t i = 0; i < sources.size(); ++i) {
            const ShardRecord shard = write_shard(disk, save->folder(), base + static_cast<int>(i),
                                                  std::span(sources).subspan(i, 1))
                                          .value();
            save->add(parse_shard_record("rank", to_text(shard).value()).value());
          }
        }
      }
      const auto saved = save->commit(sample_facts(1));
      ASSERT_TRUE(saved.ok()) << saved.status();
      const auto reader = CheckpointReader::open(*saved);
      ASSERT_TRUE(reader.ok()) << reader.status();
      for (std::int64_t a = 0; a < 6; ++a) {
        for (std::int64_t b = 0; b < 8; ++b) {
          for (std::int64_t n = 0; n <= 6 - a; n += 2) {
            for (std::int64_t m = 1; m <= 8 - b; m += 2) {
              const Slice slice{{a, b}, {n, m}};
              const std::vector<float> want = cut(tensor, shape, slice).values;
              std::vector<float> got(want.size(), -1);
              const TensorKind kind = (a + b) % 2 == 0 ? TensorKind::kParameter : TensorKind::kAdamV;
              const Status loaded = reader->load({"w", kind, ElementType::kF32, shape}, slice,
                                                 std::as_writable_bytes(std::span(got)));
              ASSERT_TRUE(loaded.ok()) << loaded;
              ASSERT_EQ(got, want) << to_string(slice);
            }
          }
        }
      }
    }
  }
}

TEST(Reader, LoadsScalarsEmptyTensorsAndColumnsOfLargeOnes) {
  TestFolder out;
  const Disk disk;
  const std::vector<float> scalar{42}, nothing, large = counted(2048 * 1024, 0);  // 8 MiB: two windows
  const auto source = [](const char* name, const Shape& shape, const std::vector<float>& values) {
    return TensorSource{name,  TensorKind::kParameter, ElementType::kF32,
                        shape, whole(shape),           std::as_bytes(std::span(values))};
  };
  const std::vector<TensorSource> sources{source("scalar", {}, scalar), source("nothing", {0, 4}, nothing),
                                          source("large", {2048, 1024}, large)};
  const auto saved = save_checkpoint(disk, out.path(), sample_facts(1), sources);
  ASSERT_TRUE(saved.ok()) << saved.status();
  const auto reader = CheckpointReader::open(*saved);
  ASSERT_TRUE(reader.ok()) << reader.status();
  float one = 0;
  EXPECT_TRUE(reader->load({"scalar"}, {}, std::as_writable_bytes(std::span(&one, 1))).ok());
  EXPECT_EQ(one, 42);
  EXPECT_TRUE(reader->load({"nothing", {}, ElementType::kF32, {0, 4}}, whole({0, 4}), {}).ok());
  std::vector<float> columns(2048 * 2);
  const Status loaded = reader->load({"large", TensorKind::kParameter, ElementType::kF32, {2048, 1024}},
                                     {{0, 1022}, {2048, 2}}, std::as_writable_bytes(std::span(columns)));
  ASSERT_TRUE(loaded.ok()) << loaded;
  for (std::size_t row = 0; row < 2048; ++row) {
    ASSERT_EQ(columns[2 * row], static_cast<float>(row * 1024 + 1022));
    ASSERT_EQ(columns[2 * row + 1], static_cast<float>(row * 1024 + 1023));
  }
}

TEST(Reader, RowsThatMakeUpATensorAreOneTensorOfTheFile) {
  TestFolder out;
  const Disk disk;
  const Shape shape{6, 8};
  const std::vector<float> tensor = counted(48, 1);
  std::vector<Cut> cuts;
  for (const Slice& slice : cover_flat_range(shape, 20, 28)) cuts.push_back(cut(tensor, shape, slice));
  for (const Slice& slice : cover_flat_range(shape, 0, 20)) cuts.push_back(cut(tensor, shape, slice));
  const auto saved =
      save_checkpoint(disk, out.path(), sample_facts(1), sources_of(cuts, shape, TensorKind::kParameter));
  ASSERT_TRUE(saved.ok()) << saved.status();
  const auto file = SafetensorsReader::open(*saved + "/model-00000.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->tensors().size(), 1u);
  EXPECT_EQ(file->tensors()[0].name, "w");
  EXPECT_EQ(file->tensors()[0].shape, shape);
  std::vector<float> got(48);
  ASSERT_TRUE(file->read(file->tensors()[0], 0, std::as_writable_bytes(std::span(got))).ok());
  EXPECT_EQ(got, tensor);
}

TEST(Reader, GivesBackWhatTheRunTold) {  // CASES T03, T22
  TestFolder out;
  const Disk disk;
  const auto reader = CheckpointReader::open(save_sample(disk, out.path(), 7).value());
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->manifest().facts.step, StepId(7));
  EXPECT_EQ(reader->manifest().facts.samples, 224);
  EXPECT_EQ(reader->manifest().facts.config, "[train]\nsteps = 10\n");
}

class ReaderOfASample : public testing::Test {
 protected:
  void SetUp() override { folder_ = save_sample(disk_, out_.path(), 7).value(); }
  std::vector<TensorSpec> specs() const {
    return {{"model.layers.0.mlp.up_proj.weight", TensorKind::kParameter, ElementType::kF32, {6, 8}},
            {"model.layers.0.mlp.up_proj.weight", TensorKind::kAdamM, ElementType::kF32, {6, 8}},
            {"model.layers.0.mlp.up_proj.weight", TensorKind::kAdamV, ElementType::kF32, {6, 8}},
            {"model.norm.weight", TensorKind::kParameter, ElementType::kF32, {8}}};
  }
  TestFolder out_;
  Disk disk_;
  std::string folder_;
};

TEST_F(ReaderOfASample, RefusesAnotherModelNamingTheFirstDifference) {
  const auto reader = CheckpointReader::open(folder_).value();
  EXPECT_TRUE(reader.check_model(kSampleModel, specs()).ok());
  EXPECT_TRUE(reader.check_model(R"({"model_type":"llama","hidden_size":8})", specs()).ok());

  std::vector<TensorSpec> wider = specs();
  wider[0].shape = {6, 9};
  const Status shape = reader.check_model(kSampleModel, wider);
  EXPECT_TRUE(absl::IsFailedPrecondition(shape));
  EXPECT_THAT(text(shape), HasSubstr("up_proj.weight (parameter) is F32 [6, 8], this run needs F32 [6, 9]"));
  EXPECT_THAT(text(shape), HasSubstr("another model"));

  std::vector<TensorSpec> half = specs();
  half[3].type = ElementType::kBF16;
  EXPECT_THAT(text(reader.check_model(kSampleModel, half)), HasSubstr("is F32 [8], this run needs BF16 [8]"));

  std::vector<TensorSpec> more = specs();
  more.push_back({"lm_head.weight", TensorKind::kParameter, ElementType::kF32, {1}});
  EXPECT_THAT(text(reader.check_model(kSampleModel, more)),
              HasSubstr("no tensor lm_head.weight (parameter)"));

  std::vector<TensorSpec> fewer = specs();
  fewer.pop_back();
  EXPECT_THAT(text(reader.check_model(kSampleModel, fewer)),
              HasSubstr("model.norm.weight (parameter) F32 [8] is not one of"));

  EXPECT_THAT(text(reader.check_model(R"({"hidden_size": 8, "model_type": "qwen3"})", specs())),
              HasSubstr("first difference: model_type: \"llama\" here, \"qwen3\" there"));
}

TEST_F(ReaderOfASample, RefusesALoadThatDoesNotFit) {
  const auto reader = CheckpointReader::open(folder_).value();
  std::vector<float> eight(8);
  const auto bytes = std::as_writable_bytes(std::span(eight));
  const TensorSpec norm = specs()[3];
  EXPECT_TRUE(reader.load(norm, whole({8}), bytes).ok());
  EXPECT_TRUE(absl::IsNotFound(reader.load({"absent"}, {}, bytes)));
  EXPECT_TRUE(absl::IsNotFound(
      reader.load({"model.norm.weight", TensorKind::kAdamM, ElementType::kF32, {8}}, whole({8}), bytes)));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      reader.load({norm.name, norm.kind, ElementType::kI32, {8}}, whole({8}), bytes)));
  EXPECT_TRUE(absl::IsInvalidArgument(reader.load(norm, {{1}, {8}}, bytes)));
  EXPECT_TRUE(absl::IsInvalidArgument(reader.load(norm, {{1}, {7}}, bytes)));
}

TEST_F(ReaderOfASample, RefusesATornFile) {
  for (const char* name : {"/model-00000.safetensors", "/optimizer-00000.safetensors"}) {
    const std::string whole_file = contents(folder_ + name);
    put(folder_ + name, whole_file.substr(0, whole_file.size() - 1));
    const Status torn = CheckpointReader::open(folder_).status();
    EXPECT_TRUE(absl::IsDataLoss(torn)) << torn;
    EXPECT_THAT(text(torn), HasSubstr(folder_ + name + ": torn"));
    std::filesystem::remove(folder_ + name);
    EXPECT_THAT(text(CheckpointReader::open(folder_).status()), HasSubstr(folder_ + name));
    put(folder_ + name, whole_file);
  }
  EXPECT_TRUE(CheckpointReader::open(folder_).ok());
}

TEST_F(ReaderOfASample, RefusesAManifestThatIsNotTheOneMarked) {
  const std::string path = folder_ + "/manifest.json", manifest = contents(path);
  std::string altered = manifest;
  altered.replace(altered.find("\"tokens\": "), 10, "\"tokens\": 1");
  put(path, altered);
  const Status status = CheckpointReader::open(folder_).status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(text(status), HasSubstr(path + ": altered or torn"));
  put(path, "");
  EXPECT_TRUE(absl::IsDataLoss(CheckpointReader::open(folder_).status()));
  put(path, R"({"format_version": 2})");
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckpointReader::open(folder_).status()));
  put(path, manifest);
  put(folder_ + "/COMPLETE", "");
  EXPECT_TRUE(absl::IsDataLoss(CheckpointReader::open(folder_).status()));
}

TEST_F(ReaderOfASample, RefusesWhatIsNotComplete) {
  std::filesystem::remove(folder_ + "/COMPLETE");
  const Status status = CheckpointReader::open(folder_).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(text(status), HasSubstr("no COMPLETE marker"));
  EXPECT_TRUE(absl::IsNotFound(CheckpointReader::open(folder_ + "x").status()));
}

}  // namespace
}  // namespace troupe::checkpoint
