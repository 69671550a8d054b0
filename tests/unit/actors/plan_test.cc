#include "actors/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actors/plan/model_of.h"
#include "kernels/cpu/cpu.h"
#include "tests/support/tiny_job.h"

namespace troupe::plan {
namespace {

using testing::ElementsAre, testing::HasSubstr;

JobConfig tiny(const std::vector<std::string>& overrides = {}) {
  auto job = parse_job_config(test::tiny_config("corpus", "run"), "test.toml", overrides);
  EXPECT_TRUE(job.ok()) << job.status();
  return *std::move(job);
}

StatusOr<Plan> plan_of(const JobConfig& job) { return make_plan(job, {.threads = 2}, kernels::cpu::table()); }

std::string message(const Status& status) { return std::string(status.message()); }

TEST(Plan, SharesTheLayersOutEvenlyTheFirstStagesTakingTheRest) {
  const auto plan = plan_of(tiny({"--model.layers=7", "--parallelism.pipeline=3"}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<std::pair<int, int>> layers;
  for (const auto& stage : plan->stages) layers.emplace_back(stage.first_layer, stage.end_layer);
  EXPECT_THAT(layers, ElementsAre(std::pair(0, 3), std::pair(3, 5), std::pair(5, 7)));
  EXPECT_TRUE(plan->stages.front().first() && !plan->stages.front().last());
  EXPECT_TRUE(plan->stages.back().last());
}

// 1F1B (Narayanan et al. 2021): stage i of P keeps P - i micro-batches.
TEST(Plan, HasACreditForEachHolder) {
  const auto plan = plan_of(tiny({"--parallelism.pipeline=4"}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (int i = 0; i < 4; ++i) {
    const auto& stage = plan->stages[static_cast<std::size_t>(i)];
    EXPECT_EQ(stage.in_flight, 4 - i);
    EXPECT_EQ(stage.batch_credits, 4 - i + 2);                        // in flight + read ahead
    EXPECT_EQ(stage.activation_credits, i < 3 ? (4 - i - 1) + 1 : 0);  // held by the next stage + being written
    EXPECT_EQ(stage.gradient_credits, i > 0 ? 2 : 0);
  }
  for (const auto& edge : plan->edges) {
    int sum = 0, term = 0;
    bool in_number = false;
    for (char c : edge.credit_terms) {  // the numbers of "3 in flight + 2 read ahead"
      if (c >= '0' && c <= '9') {
        term = term * 10 + (c - '0');
        in_number = true;
      } else if (in_number) {
        sum += std::exchange(term, 0);
        in_number = false;
      }
    }
    EXPECT_EQ(sum, edge.credits) << edge.from << ": " << edge.credit_terms;
  }
  EXPECT_EQ(plan->edges.size(), 4u + 2u * 3u);
}

TEST(Plan, KeepsNoMoreInFlightThanThereAreMicroBatches) {
  const auto plan = plan_of(tiny({"--parallelism.pipeline=4", "--training.global_batch=2"}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->micro_batches, 2);
  EXPECT_EQ(plan->stages[0].in_flight, 2);
}

TEST(Plan, KeepsAllMicroBatchesInFlightUnderGpipe) {
  const auto plan = plan_of(tiny({"--parallelism.pipeline=2", "--parallelism.schedule=gpipe"}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->stages[0].in_flight, 4);
  EXPECT_EQ(plan->stages[1].in_flight, 4);
}

TEST(Plan, IsWhatTheJobThenTakesToTheByte) {
  test::TemporaryFolder folder;
  const std::string corpus = test::make_corpus(folder.path(), 20);
  const SteadyClock clock;
  int run = 0;
  for (const char* more : {"--parallelism.pipeline=1", "--parallelism.pipeline=4", "--training.dtype=bf16", "--training.recompute=full",
                           "--training.recompute=selective", "--model.tied_embeddings=true", "--model.family=gpt2"}) {
    std::vector<std::string> overrides{more, absl::StrCat("--data.validation=", corpus), "--validation.interval=2", "--validation.steps=2"};
    if (std::string(more) == "--model.family=gpt2") overrides.push_back("--model.kv_heads=4");
    const auto job = test::make_job(test::tiny_config(corpus, absl::StrCat(folder.path(), "/run-", run++)), overrides,
                                    actors::World::on_this_machine(kernels::cpu::table(), clock));
    ASSERT_TRUE(job.ok()) << more << ": " << job.status();
    const Plan& plan = (*job)->plan();
    EXPECT_EQ((*job)->summary().pool_used_bytes, plan.pool_bytes) << more;
    std::int64_t terms = 0;
    for (const auto& [term, bytes] : plan.memory_bytes) terms += bytes;
    EXPECT_EQ(terms, plan.total_bytes) << more;
  }
}

// fp32 with snapshots: master, two moments, gradient and the snapshot's three, 4 bytes each; a layer's own parameters by hand.
TEST(Plan, CountsWhatAParameterTakes) {
  const auto plan = plan_of(tiny());
  ASSERT_TRUE(plan.ok()) << plan.status();
  const std::int64_t layer = 32 * (32 + 2 * 16) + 32 * 32 + 2 * 32 * 48 + 48 * 32 + 2 * 32;
  EXPECT_EQ(plan->parameters, 4 * layer + 2 * 257 * 32 + 32);
  std::int64_t elements = 0;
  for (const auto& block : plan->blocks) elements += block.elements;
  EXPECT_EQ(elements, 4 * layer + 2 * 320 * 32 + 32);  // with padded rows
  EXPECT_EQ(plan->memory_bytes.at("parameters"), 4 * elements);
  EXPECT_EQ(plan->memory_bytes.at("optimizer"), 8 * elements);
  EXPECT_EQ(plan->memory_bytes.at("gradients"), 4 * elements);
  EXPECT_EQ(plan->memory_bytes.at("snapshot"), 12 * elements);
}

// Per parameter of the model: bf16 weights 2, master 4, moments 8, gradient sums 4 (a tied embedding has two), each whole or a quarter.
// CASES T16: a save takes memory for this rank's own part, whatever is split. T46: sums of gradients are fp32 where compute is bf16.
TEST(Plan, EachZeroStageSplitsOneMoreThing) {
  for (int zero = 0; zero <= 3; ++zero) {
    const auto job = parse_job_config("[model]\nname = \"gpt2-124m\"\n[training]\nseq_len = 512\n", "test.toml",
                                      {"--parallelism.data_parallel=4", "--training.global_batch=4", absl::StrCat("--parallelism.zero=", zero)});
    ASSERT_TRUE(job.ok()) << job.status();
    const auto plan = plan_of(*job);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const double parameters = static_cast<double>(plan->parameters);
    const double tied = static_cast<double>(plan->model.padded_vocabulary * plan->model.hidden);
    const auto part = [zero](int from) { return zero >= from ? 0.25 : 1.0; };
    const auto bytes = [&](const char* term) { return static_cast<double>(plan->memory_bytes.at(term)); };
    EXPECT_NEAR(bytes("weights") / (2 * parameters * part(3)), 1, 0.02) << zero;
    EXPECT_NEAR(bytes("parameters") / (4 * parameters * part(1)), 1, 0.02) << zero;
    EXPECT_NEAR(bytes("optimizer") / (8 * parameters * part(1)), 1, 0.02) << zero;
    EXPECT_NEAR(bytes("gradients") / (4 * (parameters + tied) * part(2)), 1, 0.02) << zero;
    EXPECT_NEAR(bytes("snapshot") / (12 * parameters * 0.25), 1, 0.02) << zero;  // what it writes itself
    // what passes through: bounded by the plan, not by the model's depth
    const double largest = static_cast<double>(plan->blocks.front().elements);
    EXPECT_EQ(plan->memory_bytes.contains("gathered weights"), zero == 3);
    EXPECT_EQ(plan->memory_bytes.contains("gradient rooms"), zero >= 2);
    const double gathered = zero == 3 ? bytes("gathered weights") : 0;
    EXPECT_LE(gathered, (plan->prefetch + 1) * 2 * largest);
  }
}

TEST(Plan, RefusesMoreStagesThanLayers) {
  JobConfig job = tiny();
  job.parallelism.pipeline = 5;
  const auto plan = plan_of(job);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message(plan.status()), HasSubstr("parallelism.pipeline = 5: the model has 4 layers, so at most 4 stages"));
}

TEST(Plan, SaysWhatToDoWhenItDoesNotFit) {
  const auto plan = plan_of(tiny());
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(fits(*plan, {.threads = 1, .memory_bytes = plan->total_bytes}).ok());
  const Status activations = fits(*plan, {.threads = 1, .memory_bytes = plan->total_bytes - 1});
  EXPECT_EQ(activations.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(message(activations), HasSubstr("lower training.micro_batch or training.seq_len, or set training.recompute = \"full\""));
  const Status state = fits(*plan, {.threads = 1, .memory_bytes = plan->memory_bytes.at("optimizer")});
  EXPECT_THAT(message(state), HasSubstr("parameters, gradients and optimizer alone take"));
  EXPECT_THAT(message(state), HasSubstr("machines like this one"));
}

TEST(Plan, PlansLlama405BAndDoesNotFitIt) {
  const auto job = load_job_config("tools/configs/llama3-405b.toml", {});
  ASSERT_TRUE(job.ok()) << job.status();
  const auto plan = plan_of(*job);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->parameters, 405'853'388'800);  // Hugging Face's count of Llama-3.1-405B
  const Cluster here{.threads = 2, .memory_bytes = 24ll << 30};
  EXPECT_EQ(fits(*plan, here).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(describe(*plan, here), HasSubstr("405853388800"));
}

// --- model_of ---

Status model_error(const std::function<void(JobConfig&)>& change) {
  JobConfig job = tiny();
  change(job);
  const auto model = model_of(job);
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument) << model.status();
  return model.status();
}

TEST(ModelOf, RefusesHeadsThatDoNotDivideHidden) {
  const auto status = model_error([](JobConfig& job) { job.model.heads = 5; job.model.kv_heads = 5; });
  EXPECT_THAT(message(status), HasSubstr("model.hidden = 32 and model.heads = 5: heads must divide hidden, or give model.head_dim"));
}

TEST(ModelOf, RefusesKvHeadsThatDoNotDivideHeads) {
  EXPECT_THAT(message(model_error([](JobConfig& job) { job.model.kv_heads = 3; })), HasSubstr("model.kv_heads = 3"));
}

TEST(ModelOf, NamesThePresetsItKnows) {
  const auto status = model_error([](JobConfig& job) { job.model.name = "llama9"; });
  EXPECT_THAT(message(status), HasSubstr("model.name = \"llama9\": no such preset; known: "));
  EXPECT_THAT(message(status), HasSubstr("llama3-405b"));
}

TEST(ModelOf, NamesTheFamiliesItKnows) {
  EXPECT_THAT(message(model_error([](JobConfig& job) { job.model.family = "bert"; })),
              HasSubstr("model.family = \"bert\": must be one of gpt2, llama, qwen2, qwen3"));
}

TEST(ModelOf, RefusesASequenceLongerThanTheModelKnows) {
  EXPECT_THAT(message(model_error([](JobConfig& job) { job.training.seq_len = 65; })),
              HasSubstr("training.seq_len = 65 is more than model.max_seq_len = 64"));
}

TEST(ModelOf, RefusesASwitchThatTheFamilyDoesNotHave) {
  EXPECT_THAT(message(model_error([](JobConfig& job) { job.model.qkv_bias = true; })), HasSubstr("model.qkv_bias = true: family llama has false"));
  EXPECT_THAT(message(model_error([](JobConfig& job) { job.model.activation = "gelu"; })), HasSubstr("model.activation = gelu"));
}

TEST(ModelOf, OverridesAPresetWithWhatIsGiven) {
  JobConfig job = tiny();
  job.model = {};
  job.model.name = "gpt2-124m";
  job.model.layers = 3;
  const auto model = model_of(job);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->layers, 3);
  EXPECT_EQ(model->hidden, 768);
  EXPECT_EQ(model->padded_vocabulary, 50304);  // CASES T44: a multiple of 64
  EXPECT_TRUE(model->tied_embeddings);
}

}  // namespace
}  // namespace troupe::plan
