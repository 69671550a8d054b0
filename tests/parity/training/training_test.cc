// What a plan must not change: the numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu.h"
#include "models/checkpoint/hash.h"
#include "models/checkpoint/manifest.h"
#include "runtime/device/storage.h"
#include "tests/support/tiny_job.h"

namespace troupe::test {
namespace {

class Training : public testing::Test {
 protected:
  Outcome run(const std::vector<std::string>& overrides, int processes = 0) {
    const std::string output = absl::StrCat(folder_.path(), "/run-", runs_++);
    return run_job(tiny_config(corpus_, output), overrides, kernels::cpu::table(), processes);
  }

  TemporaryFolder folder_;
  std::string corpus_ = make_corpus(folder_.path(), 60);
  int runs_ = 0;
};

void expect_equal_bits(const Outcome& a, const Outcome& b) {
  ASSERT_TRUE(a.status.ok()) << a.status;
  ASSERT_TRUE(b.status.ok()) << b.status;
  ASSERT_FALSE(a.losses.empty());
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
}

TEST_F(Training, LearnsAndReportsEachStep) {
  const auto outcome = run({"--training.steps=30"});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  ASSERT_EQ(outcome.losses.size(), 30u);
  EXPECT_NEAR(outcome.losses.front(), std::log(257.0), 0.15);  // nothing is known yet
  EXPECT_LT(outcome.losses.back(), outcome.losses.front() - 1);
}

TEST_F(Training, GivesTheSameBitsAgain) { expect_equal_bits(run({}), run({})); }

TEST_F(Training, GivesTheSameBitsForAnyNumberOfStages) {
  const auto one = run({});
  expect_equal_bits(one, run({"--parallelism.pipeline=2"}));
  expect_equal_bits(one, run({"--parallelism.pipeline=4"}));
}

TEST_F(Training, GivesTheSameBitsForAnyNumberOfStagesWithTiedEmbeddings) {
  const auto one = run({"--model.tied_embeddings=true"});
  expect_equal_bits(one, run({"--model.tied_embeddings=true", "--parallelism.pipeline=2"}));
  expect_equal_bits(one, run({"--model.tied_embeddings=true", "--parallelism.pipeline=4"}));
}

// DESIGN law 9. The ranks are threads here; tests/proc has processes. GPT-2's embedding block holds more than what is tied.
TEST_F(Training, GivesTheSameBitsForStagesInSeveralProcesses) {
  const std::vector<std::string> models[] = {{}, {"--model.tied_embeddings=true"}, {"--training.dtype=bf16"},
                                             {"--training.dtype=bf16", "--model.tied_embeddings=true"},
                                             {"--model.family=gpt2", "--model.kv_heads=4", "--model.dropout=0.1"}};
  for (auto settings : models) {
    settings.push_back("--parallelism.pipeline=4");
    const auto one = run(settings);
    for (const int processes : {2, 4}) expect_equal_bits(one, run(settings, processes));
    settings.push_back("--parallelism.data_parallel=2");
    for (const char* zero : {"1", "3"}) {
      settings.push_back(absl::StrCat("--parallelism.zero=", zero));
      expect_equal_bits(run(settings), run(settings, 4));
    }
  }
}

TEST_F(Training, RecomputeChangesNoBit) {  // CASES T12: also with dropout
  for (const char* dropout : {"--model.dropout=0", "--model.dropout=0.1"}) {
    const auto kept = run({dropout});
    expect_equal_bits(kept, run({dropout, "--training.recompute=selective"}));
    expect_equal_bits(kept, run({dropout, "--training.recompute=full", "--parallelism.pipeline=2"}));
  }
}

TEST_F(Training, EvaluationChangesNoBitOfTraining) {
  const auto alone = run({});
  const auto evaluated = run({absl::StrCat("--data.validation=", corpus_), "--validation.interval=2", "--validation.steps=3"});
  expect_equal_bits(alone, evaluated);
  ASSERT_EQ(evaluated.validation.size(), 3u);
  EXPECT_GT(evaluated.validation.at(2), evaluated.validation.at(6));
  const auto staged = run({absl::StrCat("--data.validation=", corpus_), "--validation.interval=2", "--validation.steps=3",
                           "--parallelism.pipeline=4"});
  EXPECT_EQ(evaluated.validation, staged.validation);
}

// CASES T27, T28: five batches over two and four replicas, and three over four. At a rate of zero all have the same weights.
TEST_F(Training, ValidatesWithTheSameBitsOnAnyNumberOfReplicas) {
  for (const char* batches : {"5", "3"}) {
    const auto with = [&](std::vector<std::string> more) {
      for (const auto& text : {absl::StrCat("--data.validation=", corpus_), absl::StrCat("--validation.steps=", batches),
                               std::string("--validation.interval=2"), std::string("--training.steps=3"), std::string("--optimizer.lr=0")}) {
        more.push_back(text);
      }
      return more;
    };
    const auto one = run(with({}));
    ASSERT_TRUE(one.status.ok()) << one.status;
    ASSERT_EQ(one.validation.size(), 2u);
    struct Shape {
      std::vector<std::string> overrides;
      int processes = 0;
    };
    const Shape shapes[] = {{{"--parallelism.data_parallel=2"}},
                            {{"--parallelism.data_parallel=2", "--parallelism.zero=1"}},
                            {{"--parallelism.data_parallel=2", "--parallelism.zero=2", "--parallelism.pipeline=2"}},
                            {{"--parallelism.data_parallel=4", "--parallelism.zero=3"}},
                            {{"--parallelism.data_parallel=4", "--parallelism.zero=3", "--parallelism.shard_group=2"}},
                            {{"--parallelism.data_parallel=4", "--parallelism.balance=pull"}},
                            {{"--parallelism.data_parallel=2", "--parallelism.pipeline=2", "--parallelism.zero=3"}, 4},
                            {{"--parallelism.data_parallel=2", "--parallelism.pipeline=4", "--parallelism.zero=1"}, 4}};
    for (const auto& shape : shapes) {
      const auto more = run(with(shape.overrides), shape.processes);
      ASSERT_TRUE(more.status.ok()) << more.status;
      EXPECT_EQ(more.validation, one.validation) << batches << " batches, " << testing::PrintToString(shape.overrides);
    }
  }
}

// More batches than a replica evaluates at one request.
TEST_F(Training, ValidatesWithAnyNumberOfBatches) {
  const std::vector<std::string> common{absl::StrCat("--data.validation=", corpus_), "--validation.interval=1", "--validation.steps=300",
                                        "--training.steps=1", "--optimizer.lr=0"};
  const auto one = run(common);
  auto more = common;
  more.push_back("--parallelism.data_parallel=2");
  const auto two = run(more);
  ASSERT_TRUE(one.status.ok() && two.status.ok()) << one.status << two.status;
  ASSERT_EQ(one.validation.size(), 1u);
  EXPECT_NEAR(one.validation.at(1), std::log(257.0), 0.15);
  EXPECT_EQ(one.validation, two.validation);
}

TEST_F(Training, EvaluationChangesNoBitOfTrainingOnReplicas) {
  for (const char* zero : {"0", "1", "2", "3"}) {
    const std::vector<std::string> common{"--parallelism.data_parallel=2", absl::StrCat("--parallelism.zero=", zero)};
    auto evaluated = common;
    for (const auto& text : {absl::StrCat("--data.validation=", corpus_), std::string("--validation.interval=1"), std::string("--validation.steps=3")}) {
      evaluated.push_back(text);
    }
    expect_equal_bits(run(common), run(evaluated));
  }
}

TEST_F(Training, CutsTheBatchAsItLikesWithoutChangingTheLoss) {  // CASES T03, T40, T41
  // At a rate as of real training: a tenfold one lets AdamW blow the last bits up within these steps.
  const auto single = run({"--training.micro_batch=1", "--training.global_batch=8", "--training.steps=20", "--optimizer.lr=0.001"});
  const auto four = run({"--training.micro_batch=4", "--training.global_batch=8", "--training.steps=20", "--optimizer.lr=0.001"});
  ASSERT_TRUE(single.status.ok() && four.status.ok()) << single.status << four.status;
  ASSERT_EQ(single.losses.size(), four.losses.size());
  for (std::size_t i = 0; i < single.losses.size(); ++i) {
    EXPECT_NEAR(single.losses[i] / four.losses[i], 1, 1e-6) << "step " << i + 1;
  }
}

void expect_close(const Outcome& a, const Outcome& b, double tolerance) {
  ASSERT_TRUE(a.status.ok() && b.status.ok()) << a.status << b.status;
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (std::size_t i = 0; i < a.losses.size(); ++i) {
    EXPECT_NEAR(a.losses[i] / b.losses[i], 1, tolerance) << "step " << i + 1;
    EXPECT_NEAR(a.norms[i] / b.norms[i], 1, 100 * tolerance) << "step " << i + 1;
  }
  EXPECT_EQ(a.sample_hashes, b.sample_hashes);
}

// A model whose blocks are several chunks of the norm, so that its parts go to different replicas.
std::vector<std::string> wide(std::vector<std::string> more) {
  more.insert(more.begin(), {"--model.hidden=128", "--model.intermediate=192", "--training.global_batch=8", "--training.steps=20",
                             "--optimizer.lr=0.001"});
  return more;
}

// The oracle: replicas give what one gives. CASES T35 (the norm), T42 (tied embeddings over stages and replicas).
TEST_F(Training, ReplicasGiveTheLossesOfOne) {
  for (const char* tied : {"--model.tied_embeddings=false", "--model.tied_embeddings=true"}) {
    const auto one = run(wide({tied}));
    for (const char* zero : {"--parallelism.zero=0", "--parallelism.zero=1", "--parallelism.zero=2", "--parallelism.zero=3"}) {
      const auto two = run(wide({tied, zero, "--parallelism.data_parallel=2"}));
      expect_close(one, two, 1e-6);
      const auto four = run(wide({tied, zero, "--parallelism.data_parallel=4"}));
      expect_close(one, four, 1e-6);
      expect_equal_bits(four, run(wide({tied, zero, "--parallelism.data_parallel=4"})));
      expect_equal_bits(two, run(wide({tied, zero, "--parallelism.data_parallel=2"})));
      expect_equal_bits(two, run(wide({tied, zero, "--parallelism.data_parallel=2", "--parallelism.pipeline=2"})));  // any number of stages
    }
  }
}

TEST_F(Training, ZeroOneGivesTheBitsOfZeroZero) {
  for (const char* replicas : {"--parallelism.data_parallel=2", "--parallelism.data_parallel=4"}) {
    for (const char* dtype : {"--training.dtype=fp32", "--training.dtype=bf16"}) {
      expect_equal_bits(run(wide({replicas, dtype, "--parallelism.zero=0"})), run(wide({replicas, dtype, "--parallelism.zero=1"})));
    }
  }
}

// Whatever is gathered ahead or kept, in however many stages.
TEST_F(Training, ZeroThreeGivesTheBitsOfZeroTwo) {
  for (const char* tied : {"--model.tied_embeddings=false", "--model.tied_embeddings=true"}) {
    for (const char* dtype : {"--training.dtype=fp32", "--training.dtype=bf16"}) {
      const auto zero = [&](const char* stage, std::vector<std::string> more) {
        more.insert(more.end(), {tied, dtype, stage, "--parallelism.data_parallel=2", "--training.steps=8"});
        return run(wide(more));
      };
      const auto two = zero("--parallelism.zero=2", {});
      expect_equal_bits(two, zero("--parallelism.zero=3", {}));
      expect_equal_bits(two, zero("--parallelism.zero=3", {"--parallelism.prefetch=0", "--parallelism.pipeline=2", "--parallelism.schedule=gpipe"}));
      expect_equal_bits(two, zero("--parallelism.zero=3", {"--parallelism.prefetch=2", "--training.recompute=full"}));
      expect_equal_bits(two, zero("--parallelism.zero=3", {"--parallelism.reshard_after_forward=false"}));
    }
  }
}

// Two groups of two replicas: each group has all of the parameters, split over its members.
TEST_F(Training, HybridShardingGivesTheLossesOfOne) {
  for (const char* tied : {"--model.tied_embeddings=false", "--model.tied_embeddings=true"}) {
    const auto one = run(wide({tied}));
    for (const char* zero : {"--parallelism.zero=1", "--parallelism.zero=2", "--parallelism.zero=3"}) {
      const std::vector<std::string> hybrid{tied, zero, "--parallelism.data_parallel=4", "--parallelism.shard_group=2"};
      const auto two = run(wide(hybrid));
      expect_close(one, two, 1e-6);
      expect_equal_bits(two, run(wide(hybrid)));
    }
  }
}

TEST_F(Training, EveryZeroStageGivesTheSameBitsWithOneMicroBatch) {
  for (const char* tied : {"--model.tied_embeddings=false", "--model.tied_embeddings=true"}) {
    const auto zero = [&](const char* stage) {
      return run(wide({tied, stage, "--parallelism.data_parallel=4", "--training.global_batch=4", "--training.steps=8"}));
    };
    const auto none = zero("--parallelism.zero=0");
    for (const char* stage : {"--parallelism.zero=1", "--parallelism.zero=2", "--parallelism.zero=3"}) expect_equal_bits(none, zero(stage));
  }
}

void expect_each_micro_batch_once(const Outcome& outcome, int replicas, int micro_batches) {
  ASSERT_EQ(outcome.assigned.size(), outcome.losses.size());
  for (const auto& shares : outcome.assigned) {
    ASSERT_EQ(shares.size(), static_cast<std::size_t>(replicas));
    std::vector<int> all;
    for (const auto& share : shares) all.insert(all.end(), share.begin(), share.end());
    std::sort(all.begin(), all.end());
    std::vector<int> each(static_cast<std::size_t>(micro_batches));
    std::iota(each.begin(), each.end(), 0);
    ASSERT_EQ(all, each);
  }
}

TEST_F(Training, PullingGivesTheLossesOfIndexOrderAndCanBeReplayed) {
  const std::vector<std::string> shapes[] = {
      {"--parallelism.data_parallel=2"},
      {"--parallelism.data_parallel=2", "--parallelism.zero=1", "--parallelism.pipeline=2", "--model.tied_embeddings=true"},
      {"--parallelism.data_parallel=4", "--parallelism.zero=1"},
      {"--parallelism.data_parallel=4", "--parallelism.zero=1", "--parallelism.shard_group=2"}};
  for (const auto& shape : shapes) {
    const auto with = [&](std::vector<std::string> more) {
      more.insert(more.begin(), shape.begin(), shape.end());
      return wide(more);
    };
    const auto by_index = run(with({}));
    const auto pulled = run(with({"--parallelism.balance=pull"}));
    const std::string recording = absl::StrCat(folder_.path(), "/run-", runs_ - 1, "/metrics.jsonl");
    expect_close(by_index, pulled, 1e-6);
    EXPECT_TRUE(by_index.assigned.empty());
    expect_each_micro_batch_once(pulled, shape.front().back() - '0', 8);
    const auto replayed = run(with({"--parallelism.balance=pull", absl::StrCat("--parallelism.replay=", recording)}));
    expect_equal_bits(pulled, replayed);
    EXPECT_EQ(pulled.assigned, replayed.assigned);
  }
}

// A number of micro-batches that the replicas do not divide, and fewer than there are replicas.
TEST_F(Training, PullsAnyNumberOfMicroBatches) {
  for (const auto& [micro_batches, replicas] : {std::pair{3, 2}, {5, 4}, {1, 2}}) {
    for (const char* zero : {"0", "1"}) {
      const auto with = [&](std::vector<std::string> more) {
        more.push_back(absl::StrCat("--training.global_batch=", micro_batches));
        more.push_back("--optimizer.lr=0.001");
        return more;
      };
      const auto one = run(with({}));
      const auto pulled = run(with({absl::StrCat("--parallelism.data_parallel=", replicas), "--parallelism.balance=pull",
                                    absl::StrCat("--parallelism.zero=", zero), "--parallelism.pipeline=2"}));
      expect_close(one, pulled, 1e-6);
      expect_each_micro_batch_once(pulled, replicas, micro_batches);
    }
  }
}

// What a replica tells of its share is then longer than a frame's header.
TEST_F(Training, PullsThousandsOfMicroBatches) {
  const std::vector<std::string> many{"--parallelism.data_parallel=2", "--parallelism.zero=1", "--parallelism.balance=pull", "--model.layers=1",
                                      "--training.global_batch=2400", "--training.steps=2", "--training.seq_len=4", "--model.hidden=8",
                                      "--model.heads=1", "--model.kv_heads=1", "--model.intermediate=8"};
  const auto outcome = run(many);
  expect_each_micro_batch_once(outcome, 2, 2400);
}

TEST_F(Training, ReplicasEvaluateAndDropOutAsOne) {
  const std::vector<std::string> common{absl::StrCat("--data.validation=", corpus_), "--validation.interval=3", "--validation.steps=2",
                                        "--model.dropout=0.1", "--optimizer.lr=0.001"};
  const auto one = run(common);
  auto more = common;
  more.push_back("--parallelism.data_parallel=2");
  const auto two = run(more);
  expect_close(one, two, 1e-6);
  ASSERT_EQ(one.validation.size(), two.validation.size());
  for (const auto& [step, loss] : one.validation) EXPECT_NEAR(two.validation.at(step) / loss, 1, 1e-6);
}

// CASES T02, T06, T18: from two replicas to others, with and without ZeRO; every element is where it was by its global place.
TEST_F(Training, ResumesOnAnotherNumberOfReplicas) {
  const auto whole = run(wide({}));
  for (const char* before : {"--parallelism.zero=0", "--parallelism.zero=3"}) {
    for (const auto& after : std::vector<std::vector<std::string>>{{"--parallelism.data_parallel=2", "--parallelism.zero=1"},
                                                                   {"--parallelism.data_parallel=1", "--parallelism.zero=0"},
                                                                   {"--parallelism.data_parallel=4", "--parallelism.zero=3"},
                                                                   {"--parallelism.data_parallel=4", "--parallelism.zero=0"}}) {
      const std::string output = absl::StrCat(folder_.path(), "/resumed-", runs_++);
      const auto config = tiny_config(corpus_, output);
      ASSERT_TRUE(run_job(config, wide({before, "--parallelism.data_parallel=2", "--training.steps=3", "--lr_scheduler.total_steps=20"}),
                          kernels::cpu::table()).status.ok());
      expect_close(whole, run_job(config, wide(after), kernels::cpu::table()), 1e-6);
    }
  }
}

// Stages, replicas, groups that shard between them, tied or not: the norm before the first update, which is clipped by it, is one rank's; so
// are the losses after it. CASES T35, T42.
TEST_F(Training, EveryMixHasTheNormAndTheClippedUpdateOfOneRank) {
  for (const char* tied : {"--model.tied_embeddings=false", "--model.tied_embeddings=true"}) {
    const std::vector<std::string> clips{tied, "--training.max_norm=0.05", "--training.steps=3"};
    const auto with = [&](std::vector<std::string> more) {
      more.insert(more.begin(), clips.begin(), clips.end());
      return wide(more);
    };
    const auto one = run(with({}));
    ASSERT_TRUE(one.status.ok()) << one.status;
    for (const double norm : one.norms) EXPECT_GT(norm, 0.05 * 2) << "nothing is clipped";
    const auto unclipped = run(wide({tied, "--training.max_norm=0", "--training.steps=3"}));
    EXPECT_GT(std::abs(unclipped.losses.back() / one.losses.back() - 1), 1e-5) << "clipping changes nothing here";
    struct Mix {
      std::vector<std::string> shape;
      int processes = 0;
    };
    const Mix mixes[] = {{{"--parallelism.data_parallel=4", "--parallelism.shard_group=2", "--parallelism.pipeline=2", "--parallelism.zero=1"}},
                         {{"--parallelism.data_parallel=4", "--parallelism.shard_group=2", "--parallelism.pipeline=2", "--parallelism.zero=2"}, 8},
                         {{"--parallelism.data_parallel=4", "--parallelism.shard_group=2", "--parallelism.pipeline=2", "--parallelism.zero=3"}, 8},
                         {{"--parallelism.data_parallel=2", "--parallelism.pipeline=4", "--parallelism.zero=0"}, 4},
                         {{"--parallelism.data_parallel=2", "--parallelism.pipeline=4", "--parallelism.zero=1"}, 8},
                         {{"--parallelism.data_parallel=2", "--parallelism.pipeline=2", "--parallelism.zero=3"}}};
    for (const auto& mix : mixes) {
      auto shape = clips;
      shape.insert(shape.end(), mix.shape.begin(), mix.shape.end());
      const auto mixed = run(wide(shape), mix.processes);
      expect_close(one, mixed, 1e-6);
      EXPECT_NEAR(mixed.norms.front() / one.norms.front(), 1, 1e-6);
    }
  }
}

// CASES T27: an epoch that is no number of steps, nor the same for each replica, ends within a step, for all in the same; each sample is used
// as often as with one.
TEST_F(Training, AnEpochThatDoesNotDivideEndsForAllReplicasInTheSameStep) {
  TemporaryFolder small;
  const std::string corpus = make_corpus(small.path(), 5);
  const auto tokens = std::filesystem::file_size(corpus + ".bin") / 2;
  const auto run_on = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--training.global_batch=4", "--training.steps=40", "--optimizer.lr=0.001"});
    return run_job(tiny_config(corpus, absl::StrCat(folder_.path(), "/epochs-", runs_++)), more, kernels::cpu::table());
  };
  const auto sequences = (tokens - 1) / 16;
  ASSERT_NE(sequences % 4, 0u) << "the corpus divides";
  ASSERT_GT(40u * 4u, 3 * sequences) << "the epochs are too long";
  const auto one = run_on({});
  ASSERT_TRUE(one.status.ok()) << one.status;
  for (const char* replicas : {"--parallelism.data_parallel=2", "--parallelism.data_parallel=4"}) {
    const auto more = run_on({replicas, "--parallelism.zero=1"});
    ASSERT_EQ(more.steps.size(), 40u);
    expect_close(one, more, 1e-6);  // also the samples
  }
}

TEST_F(Training, ResumesWithTheSameBits) {
  const auto whole = run({"--training.steps=8", "--optimizer.lr=0.003"});
  const std::string output = folder_.path() + "/resumed";
  const auto config = tiny_config(corpus_, output);
  const std::vector<std::string> first{"--training.steps=8", "--lr_scheduler.total_steps=8", "--optimizer.lr=0.003"};
  auto part = first;
  part.push_back("--training.steps=3");
  ASSERT_TRUE(run_job(config, part, kernels::cpu::table()).status.ok());
  const auto resumed = run_job(config, first, kernels::cpu::table());
  expect_equal_bits(whole, resumed);
}

// CASES T22's kind: five steps skipped in a row end a run, also where it was resumed in between; a checkpoint of before that was saved
// counts from there.
TEST_F(Training, CountsTheStepsSkippedInARowOverAResume) {
  const std::vector<std::string> settings{"--optimizer.lr=1e30", "--training.max_norm=0", "--spike.max_skipped=4", "--lr_scheduler.total_steps=20"};
  const auto part = [&](const std::string& output, const char* steps) {
    auto more = settings;
    more.push_back(absl::StrCat("--training.steps=", steps));
    return run_job(tiny_config(corpus_, output), more, kernels::cpu::table());
  };
  const std::string output = folder_.path() + "/skips", older = folder_.path() + "/older";
  const auto begun = part(output, "4");
  ASSERT_TRUE(begun.status.ok()) << begun.status;
  ASSERT_EQ(begun.skipped, (std::vector<bool>{false, true, true, true}));

  std::filesystem::copy(output, older, std::filesystem::copy_options::recursive);
  const std::string folder = older + "/checkpoints/step-00000004/";
  auto manifest = checkpoint::parse_manifest("manifest", *device::read_file(folder + "manifest.json"));
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  ASSERT_EQ(manifest->facts.integers.erase("skipped_in_a_row"), 1u);
  const std::string text = *checkpoint::to_text(*manifest);
  ASSERT_TRUE(device::write_file_durably(folder + "manifest.json", text).ok());
  ASSERT_TRUE(device::write_file_durably(folder + "COMPLETE", absl::StrCat(checkpoint::hash_of(text), "  manifest.json\n")).ok());

  EXPECT_THAT(std::string(part(output, "20").status.message()), testing::HasSubstr("5 steps in a row were skipped, the last one (step 6)"));
  EXPECT_THAT(std::string(part(older, "20").status.message()), testing::HasSubstr("5 steps in a row were skipped, the last one (step 9)"));
}

}  // namespace
}  // namespace troupe::test
