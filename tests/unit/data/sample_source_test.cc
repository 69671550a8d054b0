#include "models/data/sample_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/unit/data/corpus_files.h"

namespace troupe::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Sample {
  explicit Sample(std::size_t length)
      : tokens(length), targets(length), positions(length), document_start(length) {}
  SampleSpans spans() { return {tokens, targets, positions, document_start}; }
  std::vector<std::int32_t> tokens, targets, positions, document_start;
};

class SampleSourceOnDisk : public testing::Test {
 protected:
  // Documents 10 11 12 | 20 21 | 30 31 32 33 | 40: ten tokens.
  SampleSourceOnDisk() { write_pair(folder_ / "a", {{10, 11, 12}, {20, 21}, {30, 31, 32, 33}, {40}}); }

  std::unique_ptr<Corpus> corpus() { return *open_corpus(folder_ / "a"); }
  Sample validation_sample(const SampleOptions& options, std::int64_t id) {
    const auto source = SampleSource::for_validation(corpus(), options, id + 1);
    EXPECT_TRUE(source.ok()) << source.status();
    Sample sample(static_cast<std::size_t>(options.seq_len));
    const Status status = source->fill(SampleId(id), sample.spans());
    EXPECT_TRUE(status.ok()) << status;
    return sample;
  }

  TempFolder folder_;
};

TEST_F(SampleSourceOnDisk, TargetsAreTheNextTokens) {
  const auto first = validation_sample({.seq_len = 4}, 0), second = validation_sample({.seq_len = 4}, 1);
  EXPECT_THAT(first.tokens, ElementsAre(10, 11, 12, 20));
  EXPECT_THAT(first.targets, ElementsAre(11, 12, 20, 21));
  EXPECT_THAT(first.positions, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(first.document_start, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(second.tokens, ElementsAre(21, 30, 31, 32));
  EXPECT_THAT(second.targets, ElementsAre(30, 31, 32, 33));
}

TEST_F(SampleSourceOnDisk, MasksTheFirstTokenOfADocument) {
  const SampleOptions options{.seq_len = 4, .document_masks = true};
  const auto first = validation_sample(options, 0), second = validation_sample(options, 1);
  EXPECT_THAT(first.tokens, ElementsAre(10, 11, 12, 20));
  EXPECT_THAT(first.targets, ElementsAre(11, 12, kMasked, 21));
  EXPECT_THAT(first.positions, ElementsAre(0, 1, 2, 0));
  EXPECT_THAT(first.document_start, ElementsAre(0, 0, 0, 3));
  // A document that began in the window before counts from this window's start.
  EXPECT_THAT(second.targets, ElementsAre(kMasked, 31, 32, 33));
  EXPECT_THAT(second.positions, ElementsAre(0, 0, 1, 2));
  EXPECT_THAT(second.document_start, ElementsAre(0, 1, 1, 1));
}

TEST_F(SampleSourceOnDisk, MasksTheLastTargetWhenADocumentBeginsRightAfterTheWindow) {
  const auto sample = validation_sample({.seq_len = 3, .document_masks = true}, 0);
  EXPECT_THAT(sample.tokens, ElementsAre(10, 11, 12));
  EXPECT_THAT(sample.targets, ElementsAre(11, 12, kMasked));
  EXPECT_THAT(sample.document_start, ElementsAre(0, 0, 0));
  const auto last =
      validation_sample({.seq_len = 9, .document_masks = true}, 0);  // the corpus' very last token
  EXPECT_THAT(last.targets, ElementsAre(11, 12, kMasked, 21, kMasked, 31, 32, 33, kMasked));
  EXPECT_THAT(last.document_start, ElementsAre(0, 0, 0, 3, 3, 5, 5, 5, 5));
}

TEST_F(SampleSourceOnDisk, KeepsTargetsAndPositionsWhenAsked) {
  const auto sample = validation_sample(
      {.seq_len = 4, .document_masks = true, .mask_next_document = false, .restart_positions = false}, 0);
  EXPECT_THAT(sample.targets, ElementsAre(11, 12, 20, 21));
  EXPECT_THAT(sample.positions, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(sample.document_start, ElementsAre(0, 0, 0, 3));
}

// Against the plain definition, at each length, from each format.
TEST_F(SampleSourceOnDisk, AgreesWithTheDefinitionAtEveryLength) {
  const std::vector<std::int32_t> stream{10, 11, 12, 20, 21, 30, 31, 32, 33, 40};
  const std::set<std::size_t> begins{0, 3, 5, 9};
  for (std::int64_t length = 1; length <= 9; ++length) {
    for (std::int64_t id = 0; id < 9 / length; ++id) {
      const auto sample = validation_sample({.seq_len = length, .document_masks = true}, id);
      std::size_t start = 0;
      for (std::size_t i = 0; i < static_cast<std::size_t>(length); ++i) {
        const std::size_t at = static_cast<std::size_t>(id * length) + i;
        if (begins.contains(at)) start = i;
        EXPECT_EQ(sample.tokens[i], stream[at]);
        EXPECT_EQ(sample.targets[i], begins.contains(at + 1) ? kMasked : stream[at + 1]);
        EXPECT_EQ(sample.document_start[i], static_cast<std::int32_t>(start));
        EXPECT_EQ(sample.positions[i], static_cast<std::int32_t>(i - start));
      }
    }
  }
}

TEST(SampleSource, MasksDocumentsOfLlmcShards) {
  const TempFolder folder;
  write_bytes(folder / "s_1.bin", llmc_gpt2({1, 2, 50256}));
  write_bytes(folder / "s_2.bin", llmc_gpt2({4, 5, 6}));
  const auto source =
      SampleSource::for_validation(*open_corpus(folder.path()), {.seq_len = 5, .document_masks = true}, 1);
  Sample sample(5);
  ASSERT_TRUE(source->fill(SampleId(0), sample.spans()).ok());
  EXPECT_THAT(sample.tokens, ElementsAre(1, 2, 50256, 4, 5));
  EXPECT_THAT(sample.targets, ElementsAre(2, 50256, kMasked, 5, 6));
  EXPECT_THAT(sample.document_start, ElementsAre(0, 0, 0, 3, 3));
}

TEST_F(SampleSourceOnDisk, LeavesOutWhatIsNotWanted) {
  const auto source = SampleSource::for_validation(corpus(), {.seq_len = 4, .document_masks = true}, 1);
  std::vector<std::int32_t> tokens(4);
  ASSERT_TRUE(
      source->fill(SampleId(0), {.tokens = tokens, .targets = {}, .positions = {}, .document_start = {}})
          .ok());
  EXPECT_THAT(tokens, ElementsAre(10, 11, 12, 20));
}

// CASES T01, T02: training reads every window once an epoch, in an order of that epoch, and a source made
// anew at a cursor gives the same samples.
TEST_F(SampleSourceOnDisk, GivesTheSameSamplesAfterAResume) {
  const SampleOptions options{.seq_len = 1};  // nine windows
  const auto whole = SampleSource::for_training(corpus(), options, 17);
  ASSERT_EQ(whole->sampler().samples_per_epoch(), 9);
  std::vector<std::int32_t> seen;
  for (std::int64_t id = 0; id < 27; ++id) {
    Sample sample(1);
    ASSERT_TRUE(whole->fill(SampleId(id), sample.spans()).ok());
    seen.push_back(sample.tokens[0]);
  }
  for (std::size_t epoch = 0; epoch < 3; ++epoch) {
    EXPECT_EQ(std::set<std::int32_t>(seen.begin() + static_cast<std::ptrdiff_t>(9 * epoch),
                                     seen.begin() + static_cast<std::ptrdiff_t>(9 * epoch + 9))
                  .size(),
              9u);
  }
  const auto resumed = SampleSource::for_training(corpus(), options, 17);
  EXPECT_EQ(resumed->fingerprint(), whole->fingerprint());
  for (std::int64_t id = 13; id < 27; ++id) {
    Sample sample(1);
    ASSERT_TRUE(resumed->fill(SampleId(id), sample.spans()).ok());
    EXPECT_EQ(sample.tokens[0], seen[static_cast<std::size_t>(id)]);
  }
}

TEST_F(SampleSourceOnDisk, HasAnotherFingerprintWhenIdsMeanOtherSamples) {
  const auto print = [&](std::int64_t seq_len, std::uint64_t seed) {
    return SampleSource::for_training(corpus(), {.seq_len = seq_len}, seed)->fingerprint();
  };
  EXPECT_EQ(print(4, 1), print(4, 1));
  EXPECT_NE(print(4, 1), print(4, 2));
  EXPECT_NE(print(4, 1), print(3, 1));
  EXPECT_NE(print(4, 1), print(4, (std::uint64_t{1} << 63) + 1));
  EXPECT_NE(SampleSource::for_training(corpus(), {.seq_len = 4}, 1, SampleOrder::kRepeated)->fingerprint(), print(4, 1));
  const auto before = print(4, 1);
  write_pair(folder_ / "a", {{10, 11, 12}, {20, 21}, {30, 31, 32, 33}, {40, 41}});
  EXPECT_NE(print(4, 1), before);
}

TEST_F(SampleSourceOnDisk, RefusesACorpusShorterThanOneSample) {
  const auto source = SampleSource::for_training(corpus(), {.seq_len = 10}, 1);
  EXPECT_TRUE(absl::IsInvalidArgument(source.status()));
  EXPECT_THAT(std::string(source.status().message()),
              HasSubstr("has 10 tokens; one sample of seq_len 10 takes 11"));
  EXPECT_TRUE(SampleSource::for_training(corpus(), {.seq_len = 9}, 1).ok());
  EXPECT_FALSE(SampleSource::for_training(corpus(), {.seq_len = 0}, 1).ok());
}

TEST_F(SampleSourceOnDisk, RefusesMoreValidationSamplesThanThereAre) {
  const auto source = SampleSource::for_validation(corpus(), {.seq_len = 4}, 3);
  EXPECT_THAT(std::string(source.status().message()),
              HasSubstr("validation of 3 samples (steps x batch); the corpus has 2"));
  EXPECT_FALSE(SampleSource::for_validation(corpus(), {.seq_len = 4}, 0).ok());
}

TEST_F(SampleSourceOnDisk, PassesOnATokenOutsideTheVocabulary) {
  const auto source =
      SampleSource::for_validation(*open_corpus(folder_ / "a", {.vocab_size = 31}), {.seq_len = 4}, 2);
  Sample sample(4);
  EXPECT_TRUE(source->fill(SampleId(0), sample.spans()).ok());
  const Status status = source->fill(SampleId(1), sample.spans());
  EXPECT_THAT(std::string(status.message()), HasSubstr("token 6 is 31"));
}

TEST(SampleSource, RefusesATargetOutsideTheVocabulary) {
  const TempFolder folder;
  write_pair(folder / "a", {{1, 2, 3, 99}});
  const auto source =
      SampleSource::for_validation(*open_corpus(folder / "a", {.vocab_size = 50}), {.seq_len = 3}, 1);
  Sample sample(3);
  EXPECT_THAT(std::string(source->fill(SampleId(0), sample.spans()).message()), HasSubstr("token 3 is 99"));
}

}  // namespace
}  // namespace troupe::data
