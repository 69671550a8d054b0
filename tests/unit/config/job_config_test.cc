#include "actors/plan/job_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace troupe::plan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kModel[] =
    "[model]\nfamily = \"llama\"\nvocab_size = 257\nlayers = 8\nhidden = 256\nheads = 8\nkv_heads = 4\n";

std::string error_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return std::string(parse_job_config(text, "a.toml", overrides).status().message());
}
// What a sound model says of `overrides`.
std::string error_with(const std::vector<std::string>& overrides) { return error_of(kModel, overrides); }

JobConfig config_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  auto config = parse_job_config(text, "a.toml", overrides);
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? *config : JobConfig{};
}

TEST(JobConfig, ValidatesInWholeMicroBatches) {
  EXPECT_THAT(error_of(std::string(kModel) + "[data]\nvalidation = \"v\"\n[training]\nmicro_batch = 3\n[validation]\ninterval = 5\nbatch = 8\n"),
              HasSubstr(" must be a multiple of training.micro_batch=3 (a.toml:11): nearest is 6 or 9"));
}

TEST(JobConfig, PullsWithZeroNoughtAndOneOnly) {
  const JobConfig config =
      config_of(kModel, {"--parallelism.balance=pull", "--parallelism.zero=1", "--parallelism.replay=runs/a/metrics.jsonl"});
  EXPECT_EQ(config.parallelism.balance, Balance::kPull);
  EXPECT_EQ(config.parallelism.replay, "runs/a/metrics.jsonl");
  EXPECT_EQ(config_of(kModel).parallelism.balance, Balance::kStatic);
  for (const char* zero : {"2", "3"}) {
    EXPECT_THAT(error_with({"--parallelism.balance=pull", std::string("--parallelism.zero=") + zero}),
                HasSubstr(std::string("parallelism.balance=pull (command line) goes with parallelism.zero = 0 or 1, not with "
                                      "parallelism.zero=") + zero));
  }
  EXPECT_THAT(error_with({"--parallelism.balance=push"}), HasSubstr("static | pull"));
  EXPECT_THAT(error_with({"--parallelism.replay=x"}), HasSubstr("is for parallelism.balance=\"pull\" only; set that or remove it"));
}

TEST(JobConfig, FillsInWhatADefaultLeavesToOtherKeys) {
  const JobConfig config = config_of(kModel, {"--training.micro_batch=3", "--training.steps=7"});
  EXPECT_EQ(config.job.output, "runs/a");
  EXPECT_EQ(config.training.global_batch, 3);
  EXPECT_EQ(config.lr_scheduler.total_steps, 7);
  EXPECT_EQ(config.validation.batch, 3);
  EXPECT_EQ(config_of(kModel, {"--job.output=elsewhere"}).job.output, "elsewhere");
  EXPECT_FALSE(config.model.head_dim.has_value());
  EXPECT_TRUE(config.checkpoint.resume);
}

TEST(JobConfig, TakesTorchtitansNamesWhereTheyMeanTheSame) {
  const JobConfig config = config_of(std::string(kModel) + R"(
[job]
dump_folder = "out"
[optimizer]
name = "AdamW"
lr = 3e-4
eps = 1e-9
[lr_scheduler]
warmup_steps = 10
decay_type = "linear"
min_lr_factor = 0.1
[training]
local_batch_size = 2
global_batch_size = 4
mixed_precision_param = "float32"
max_norm = 0.5
[parallelism]
data_parallel_replicate_degree = 1
tensor_parallel_degree = 1
pipeline_parallel_degree = 4
context_parallel_degree = 1
expert_parallel_degree = 1
pipeline_parallel_schedule = "1F1B"
[activation_checkpoint]
mode = "full"
[validation]
freq = 5
dataset_path = "v"
local_batch_size = 8
[metrics]
log_freq = 10
[debug]
seed = 42
)");
  EXPECT_EQ(config.job.output, "out");
  EXPECT_EQ(config.job.seed, 42);
  EXPECT_EQ(config.optimizer.name, "adamw");
  EXPECT_EQ(config.optimizer.lr, 3e-4);
  EXPECT_EQ(config.optimizer.epsilon, 1e-9);
  EXPECT_EQ(config.lr_scheduler.decay, Decay::kLinear);
  EXPECT_EQ(config.training.micro_batch, 2);
  EXPECT_EQ(config.training.global_batch, 4);
  EXPECT_EQ(config.training.dtype, ComputeType::kFp32);
  EXPECT_EQ(config.training.recompute, Recompute::kFull);
  EXPECT_EQ(config.parallelism.pipeline, 4);
  EXPECT_EQ(config.parallelism.schedule, ScheduleName::kOneForwardOneBackward);
  EXPECT_EQ(config.validation.interval, 5);
  EXPECT_EQ(config.validation.batch, 8);
  EXPECT_EQ(config.data.validation, "v");
  EXPECT_EQ(config.metrics.log_every, 10);
}

TEST(JobConfig, RefusesTorchtitansNamesThatItDoesNotHave) {
  EXPECT_THAT(error_of("[model]\nname = \"llama3-8b\"\nflavor = \"8B\"\n"),
              HasSubstr("a.toml:3: model.flavor is not supported: a preset has one name"));
  EXPECT_THAT(error_with({"--parallelism.data_parallel_shard_degree=8"}), HasSubstr("parallelism.zero"));
  EXPECT_THAT(error_with({"--quantize.linear.float8.enable=true"}), HasSubstr("is not supported"));
  EXPECT_THAT(error_with({"--lr_scheduler.decay_type=sqrt"}), HasSubstr("cosine | linear | wsd | constant"));
  EXPECT_THAT(error_with({"--training.local_batch_size=1", "--training.micro_batch=1"}),
              HasSubstr("given twice"));
}

// What people type from memory leads to the right key.
TEST(JobConfig, NamesTheKeyThatWasMeant) {
  const std::pair<const char*, const char*> cases[] = {
      {"training.sequence_lenght", "training.seq_len"},
      {"training.seq_length", "training.seq_len"},
      {"training.max_seq_len", "training.seq_len"},
      {"trainig.steps", "training.steps"},
      {"training.batch_size", "training.micro_batch"},
      {"training.clip_grad", "training.max_norm"},
      {"optimizer.learning_rate", "optimizer.lr"},
      {"optimizer.weightdecay", "optimizer.weight_decay"},
      {"model.hidden_size", "model.hidden"},
      {"model.num_hidden_layers", "model.layers"},
      {"model.num_key_value_heads", "model.kv_heads"},
      {"model.rms_norm_eps", "model.norm_epsilon"},
      {"model.tie_word_embeddings", "model.tied_embeddings"},
      {"parallelism.tp", "parallelism.tensor"},
      {"parallelism.tensor_parallel", "parallelism.tensor"},
      {"parallelism.pipeline_paralel_degree", "parallelism.pipeline"},
      {"checkpoint.intervall", "checkpoint.interval"},
      {"validation.eval_interval", "validation.interval"},
      {"seed", "job.seed"},
      {"lr", "optimizer.lr"},
      {"training.lr", "optimizer.lr"},
      {"device.thread", "device.threads"},
  };
  for (const auto& [typed, meant] : cases) {
    EXPECT_EQ(error_with({std::string("--") + typed + "=1"}),
              std::string("command line: unknown key '") + typed + "'; did you mean '" + meant + "'?");
  }
}

TEST(JobConfig, RefusesContradictorySizes) {
  EXPECT_EQ(error_with({"--model.hidden=250"}),
            "model.hidden=250 (command line) must be a multiple of model.heads=8 (a.toml:6): nearest is 248 "
            "or 256; or give "
            "model.head_dim");
  EXPECT_EQ(error_with({"--model.hidden=250", "--model.head_dim=32"}), "");
  EXPECT_THAT(error_with({"--model.kv_heads=3"}),
              HasSubstr("must divide model.heads=8 (a.toml:6): allowed are 1, 2, 4, 8"));
  EXPECT_THAT(error_with({"--model.head_dim=33"}),
              HasSubstr("must be even for rotary positions: nearest is 32 or 34"));
  EXPECT_THAT(error_with({"--model.hidden=24"}), HasSubstr("model.hidden / model.heads = 3 must be even"));
  EXPECT_THAT(error_with({"--model.family=gpt2"}),
              HasSubstr("model.kv_heads=4 (a.toml:7) must equal model.heads=8"));
  EXPECT_THAT(error_with({"--model.max_seq_len=1024"}),
              HasSubstr("training.seq_len=2048 must be at most model.max_seq_len=1024 (command line)"));
  EXPECT_EQ(error_with({"--model.max_seq_len=2048"}), "");
  EXPECT_THAT(error_with({"--data.end_of_document=257"}), HasSubstr("must be below model.vocab_size=257"));
  EXPECT_EQ(error_with({"--data.end_of_document=256"}), "");
  EXPECT_THAT(error_of("[model]\nfamily = \"llama\"\nheads = 4\n"),
              HasSubstr("missing: model.vocab_size, model.layers, model.hidden"));
  EXPECT_EQ(error_of("[model]\nname = \"llama3-8b\"\nheads = 4\n"), "");
}

TEST(JobConfig, RefusesContradictoryRope) {
  EXPECT_THAT(error_with({"--model.rope_scaling.kind=llama3"}), HasSubstr("also needs factor"));
  EXPECT_THAT(error_with({"--model.rope_scaling.factor=8"}),
              HasSubstr("no model.rope_scaling.kind; set it to llama3"));
  const std::vector<std::string> good = {"--model.rope_scaling.kind=llama3", "--model.rope_scaling.factor=8",
                                         "--model.rope_scaling.low_freq_factor=1",
                                         "--model.rope_scaling.high_freq_factor=4",
                                         "--model.rope_scaling.original_max_seq_len=8192"};
  EXPECT_EQ(error_with(good), "");
  std::vector<std::string> bad = good;
  bad.push_back("--model.rope_scaling.low_freq_factor=4");
  EXPECT_THAT(error_with(bad), HasSubstr("must be below model.rope_scaling.high_freq_factor=4"));
  EXPECT_THAT(error_with({"--model.family=gpt2", "--model.kv_heads=8", "--model.rope_theta=10000"}),
              HasSubstr("learned positions"));
}

TEST(JobConfig, RefusesABatchThatDoesNotDivide) {
  EXPECT_EQ(
      error_with({"--training.micro_batch=4", "--training.global_batch=18"}),
      "training.global_batch=18 (command line) must be a multiple of training.micro_batch=4 (command line) x "
      "parallelism.data_parallel=1 = 4: nearest is 16 or 20");
  EXPECT_THAT(error_with({"--training.micro_batch=4", "--training.global_batch=2"}),
              HasSubstr("nearest is 4"));
  EXPECT_EQ(error_with({"--training.micro_batch=4", "--training.global_batch=16"}), "");
  EXPECT_THAT(error_with({"--training.micro_batch=4", "--training.global_batch=12", "--parallelism.data_parallel=2"}), HasSubstr(" = 8: nearest is 8 or 16"));
  EXPECT_EQ(error_with({"--training.micro_batch=4", "--training.global_batch=12", "--parallelism.data_parallel=2", "--parallelism.balance=pull"}), "");
  EXPECT_EQ(error_with({"--training.micro_batch=4", "--training.global_batch=14", "--parallelism.data_parallel=2", "--parallelism.balance=pull"}),
            "training.global_batch=14 (command line) must be a multiple of training.micro_batch=4 (command line): nearest is 12 or 16");
}

TEST(JobConfig, RefusesALearningRateScheduleWithoutRoom) {
  EXPECT_THAT(error_with({"--training.steps=10", "--lr_scheduler.warmup_steps=11"}),
              HasSubstr("must be at most lr_scheduler.total_steps=10"));
  EXPECT_EQ(error_with({"--training.steps=10", "--lr_scheduler.warmup_steps=10"}), "");
  EXPECT_THAT(error_with({"--lr_scheduler.decay_ratio=0.2"}),
              HasSubstr("is for lr_scheduler.decay=\"wsd\" only"));
  EXPECT_EQ(error_with({"--lr_scheduler.decay_ratio=0.2", "--lr_scheduler.decay=wsd"}), "");
  EXPECT_THAT(error_with({"--lr_scheduler.decay_ratio=0.8", "--lr_scheduler.decay=wsd", "--training.steps=10",
                          "--lr_scheduler.warmup_steps=5"}),
              HasSubstr("leaves no room"));
}

TEST(JobConfig, RefusesWhatTheTrainerCannotDoYet) {
  for (const char* key : {"tensor", "context", "expert"}) {
    EXPECT_THAT(
        error_with({std::string("--parallelism.") + key + "=2", "--training.global_batch=2"}),
        HasSubstr(std::string("parallelism.") + key + "=2 (command line): not supported yet; at most 1"));
  }
  EXPECT_THAT(error_with({"--parallelism.zero=4"}), HasSubstr("parallelism.zero = 4 is out of range: allowed 0 .. 3"));
  EXPECT_THAT(error_with({"--parallelism.zero=1", "--parallelism.data_parallel=6", "--training.global_batch=6", "--parallelism.shard_group=4"}),
              HasSubstr("parallelism.shard_group=4 (command line) must divide parallelism.data_parallel=6"));
  EXPECT_THAT(error_with({"--parallelism.data_parallel=4", "--training.global_batch=4", "--parallelism.shard_group=2"}),
              HasSubstr("is for parallelism.zero >= 1"));
  EXPECT_EQ(error_with({"--parallelism.zero=3", "--parallelism.prefetch=0", "--parallelism.reshard_after_forward=false"}), "");
  EXPECT_THAT(error_with({"--device", "cuda"}),
              HasSubstr("device.kind=cuda (command line): not supported yet; only cpu"));
  EXPECT_EQ(error_with({"--parallelism.pipeline=8", "--parallelism.schedule=gpipe", "--device=cpu"}), "");
  EXPECT_THAT(error_with({"--parallelism.pipeline=9"}), HasSubstr("must be at most model.layers=8"));
}

TEST(JobConfig, RefusesValidationWithoutDataAndASpikeBelowTheAverage) {
  EXPECT_THAT(error_with({"--validation.interval=5"}), HasSubstr("needs data.validation"));
  EXPECT_EQ(error_with({"--validation.interval=5", "--data.validation=v"}), "");
  EXPECT_THAT(error_with({"--spike.factor=0.5"}), HasSubstr("must be above 1, or 0 for off"));
  EXPECT_EQ(error_with({"--spike.factor=3"}), "");  // CASES T57: loss > 3 x EMA
}

TEST(JobConfig, RefusesATimeoutThatEndsBeforeTheOneWithinIt) {  // CASES T33
  const std::string error = error_with({"--job.heartbeat_timeout_s=60", "--limits.shutdown_seconds=30"});
  EXPECT_THAT(error, HasSubstr("limits.shutdown_seconds=30"));
  EXPECT_THAT(error, HasSubstr("is not longer than job.heartbeat_timeout_s=60"));
  EXPECT_EQ(error_with({"--job.heartbeat_timeout_s=60", "--limits.shutdown_seconds=61"}), "");
  const std::string join = error_with({"--job.join_timeout_s=20", "--job.heartbeat_timeout_s=20"});
  EXPECT_THAT(join, HasSubstr("job.join_timeout_s=20"));
  EXPECT_THAT(join, HasSubstr("is not longer than job.heartbeat_timeout_s=20"));
  EXPECT_EQ(error_with({"--job.join_timeout_s=21", "--job.heartbeat_timeout_s=20"}), "");
  EXPECT_THAT(error_with({"--job.join_timeout_s=0"}), HasSubstr("job.join_timeout_s"));
}

TEST(JobConfig, NeedsDataToTrainButNotToPlan) {
  JobConfig config = config_of(kModel);
  EXPECT_THAT(std::string(ready_to_train(config).message()), HasSubstr("data.train is not given"));
  config.data.train = "t";
  EXPECT_TRUE(ready_to_train(config).ok());
}

TEST(JobConfig, ListsEveryContradiction) {
  const std::string all = error_with({"--model.kv_heads=3", "--spike.factor=0.5", "--parallelism.tensor=2"});
  EXPECT_THAT(all, HasSubstr("3 errors:"));
}

TEST(JobConfig, ResolvedLoadsToTheSame) {
  const JobConfig config = config_of(
      kModel, {"--optimizer.lr=0.00030000000000000003", "--training.dtype=float32", "--model.dropout=0.1",
               "--model.activation=gelu_new", "--job.description=a \"b\"\n#"});
  const std::string text = resolved(config);
  const JobConfig back = config_of(text);
  EXPECT_EQ(resolved(back), text);
  EXPECT_EQ(back.optimizer.lr, config.optimizer.lr);
  EXPECT_EQ(back.job.output, "runs/a");
  EXPECT_EQ(back.job.description, config.job.description);
  EXPECT_EQ(back.model.activation, "gelu_tanh");
  EXPECT_EQ(back.model.head_dim, std::nullopt);
  EXPECT_THAT(text, HasSubstr("dtype = \"fp32\""));
  EXPECT_THAT(text, Not(HasSubstr("local_batch_size")));
}

TEST(JobConfig, EveryShippedConfigLoadsAndResolves) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tools/configs")) {
    if (entry.path().extension() != ".toml") continue;
    ++count;
    const auto config = load_job_config(entry.path().string(), {});
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->job.output, "runs/" + entry.path().stem().string());
    EXPECT_TRUE(ready_to_train(*config).ok());
    if (!config->model.name.empty()) {
      EXPECT_EQ(config->model.name, entry.path().stem().string());
    }
    EXPECT_EQ(resolved(config_of(resolved(*config))), resolved(*config));
  }
  EXPECT_GE(count, 7);
}

TEST(JobConfig, QuickstartStaysDivisible) {
  const auto config = load_job_config("tools/configs/quickstart.toml", {"--parallelism.pipeline=4"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model.layers, 8);
  EXPECT_EQ(config->model.heads, 8);
  EXPECT_EQ(config->model.kv_heads, 4);
  EXPECT_EQ(config->model.dropout, 0.0);
  EXPECT_EQ(config->training.micro_batch, 1);
  EXPECT_EQ(config->training.global_batch, 16);
}

TEST(JobConfig, AMistypedOverrideOfTheQuickstartNamesTheKey) {
  const auto config = load_job_config("tools/configs/quickstart.toml", {"--training.sequence_lenght=64"});
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(config.status().message()), HasSubstr("did you mean 'training.seq_len'?"));
  EXPECT_EQ(load_job_config("tools/configs/none.toml", {}).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace troupe::plan
