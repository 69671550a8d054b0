// What a training job is asked to do: the trainer's settings, their names, defaults and limits.
//
// The names below win; torchtitan's are accepted where they mean the same (job_schema.cc lists them), and a
// resolved file has ours only. Threads: a value. Errors: kInvalidArgument, a line for each fault with file,
// line, key, value, what is allowed; kNotFound for a file that is not there. Limits: what the trainer cannot
// do yet is refused by validate() (kNotYet in job_config.cc). Invariants: resolved() of a loaded config loads
// to an equal config (JobConfig.ResolvedLoadsToTheSame).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/config.h"
#include "runtime/base/status.h"

namespace troupe::plan {

enum class DeviceKind { kCpu, kCuda };
enum class DataFormat { kAuto, kMegatron, kLlmc };
enum class ComputeType { kBf16, kFp32 };
enum class Recompute { kNone, kSelective, kFull };
enum class Decay { kCosine, kLinear, kWsd, kConstant };
enum class ScheduleName { kOneForwardOneBackward, kGpipe };
enum class Balance { kStatic, kPull };
enum class OnStall { kContinue, kStop };
enum class SpikeAction { kSkip };

// Where lr_scheduler.decay_ratio is not given.
inline constexpr double kDefaultDecayRatio = 0.1;

struct JobSection {
  std::string output;  // empty in a file means runs/<config file stem>
  std::int64_t seed = 1234;
  std::string description;
  double heartbeat_timeout_s = 5.0;  // a process not heard of for so long is gone
  double join_timeout_s = 120.0;     // so long the first process waits until the last has come
  std::string inspect_listen;        // HOST:PORT; empty: nowhere
  double stall_factor = 5.0, stall_min_s = 30.0;  // nothing goes on: no step is closed for the greater of factor x the median step and min
  OnStall on_stall = OnStall::kContinue;
};

struct DeviceSection {
  DeviceKind kind = DeviceKind::kCpu;
  int threads = 0;  // 0: cores / local ranks
};

// Everything but `kind` is for kind = "llama3". Empty: the preset's or the family's value.
struct RopeScalingSection {
  std::optional<std::string> kind;  // none | llama3
  std::optional<double> factor, low_freq_factor, high_freq_factor;
  std::optional<int> original_max_seq_len;
};

// A preset by name, sizes inline, or both: what is given inline overrides the preset. What the names of
// families, presets and activations mean is the models' business.
struct ModelSection {
  std::string name;
  std::optional<std::string> family;  // gpt2 | llama | qwen2 | qwen3
  std::optional<int> vocab_size, pad_vocab_multiple, layers, hidden, heads, kv_heads, head_dim, intermediate;
  std::optional<int> max_seq_len;
  std::optional<double> norm_epsilon, rope_theta;
  RopeScalingSection rope_scaling;
  std::optional<bool> tied_embeddings, qkv_bias;
  std::optional<std::string> activation;  // silu | gelu | gelu_tanh
  std::optional<double> dropout, init_std;
};

struct DataSection {
  std::string train, validation;  // a prefix, a file or a pattern
  DataFormat format = DataFormat::kAuto;
  bool document_mask = true;
  bool shuffle = true;
  std::optional<int> end_of_document;
};

struct TrainingSection {
  std::int64_t steps = 10000;
  int seq_len = 2048;
  int micro_batch = 1;
  std::int64_t global_batch = 0;  // 0 in a file: one micro-batch
  ComputeType dtype = ComputeType::kBf16;
  double max_norm = 1.0;  // 0: no clipping
  Recompute recompute = Recompute::kNone;
};

struct OptimizerSection {
  std::string name = "adamw";
  double lr = 8e-4, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
};

struct LrSchedulerSection {
  std::int64_t warmup_steps = 0;
  Decay decay = Decay::kCosine;
  std::int64_t total_steps = 0;       // 0 in a file: training.steps
  std::optional<double> decay_ratio;  // wsd only: the part of total_steps that decays
  double min_lr_factor = 0.0;
};

struct ParallelismSection {
  int data_parallel = 1, pipeline = 1, tensor = 1, context = 1, expert = 1, zero = 0;
  int shard_group = 0;                // hybrid sharding: replicas that split between them; 0: all
  int prefetch = 1;                   // ZeRO-3: blocks gathered ahead
  bool reshard_after_forward = true;  // ZeRO-3: gathered weights are given up after the forward
  ScheduleName schedule = ScheduleName::kOneForwardOneBackward;
  Balance balance = Balance::kStatic;
  std::string replay;  // pulled only: metrics.jsonl of the run whose assignment is followed
};

struct CheckpointSection {
  std::int64_t interval = 500;  // 0: at the end only
  int keep_latest_k = 10;       // 0: all
  bool resume = true;
  bool allow_other_data = false;
};

struct ValidationSection {
  std::int64_t interval = 0;  // 0: off
  std::int64_t steps = 10;
  int batch = 0;  // 0 in a file: training.micro_batch
};

struct SpikeSection {
  double factor = 0.0;  // 0: off; a step that is not finite is skipped all the same
  double ema = 0.98;
  SpikeAction action = SpikeAction::kSkip;
  int max_skipped = 10;
};

struct MetricsSection {
  std::int64_t log_every = 1;
  bool tensorboard = false;
  std::string tensorboard_folder = "tb";  // below job.output, or an absolute path
};

struct LimitsSection {
  double shutdown_seconds = 30.0;
};

struct JobConfig {
  JobSection job;
  DeviceSection device;
  ModelSection model;
  DataSection data;
  TrainingSection training;
  OptimizerSection optimizer;
  LrSchedulerSection lr_scheduler;
  ParallelismSection parallelism;
  CheckpointSection checkpoint;
  ValidationSection validation;
  SpikeSection spike;
  MetricsSection metrics;
  LimitsSection limits;
  ConfigOrigins origins;  // where each value came from, by key; empty for a config made in code
};

// Declares every setting over `config`, which must outlive `schema` (job_schema.cc).
void declare_job(ConfigSchema& schema, JobConfig& config);

// Reads the file, then the overrides ("--training.steps=20"), fills in what a default leaves to other keys,
// validates.
StatusOr<JobConfig> load_job_config(const std::string& path, const std::vector<std::string>& overrides);
// The same from text; `origin` stands for the file's name in messages and in the default job.output.
StatusOr<JobConfig> parse_job_config(const std::string& text, const std::string& origin,
                                     const std::vector<std::string>& overrides);

// Fills in what a default leaves to other keys: job.output (runs/<name>), training.global_batch,
// lr_scheduler.total_steps, validation.batch. Loading does it; a config made in code calls it before
// validate().
void complete(JobConfig& config, const std::string& name);

// Everything that the config alone can tell to be impossible, all of it in one status. What a preset or a
// cluster decides is the plan's to check.
Status validate(const JobConfig& config);
// What training needs beyond a valid config; `troupe plan` does not.
Status ready_to_train(const JobConfig& config);

// The whole effective config as TOML, for OUT/config.resolved.toml; of JobConfig{}: the list of all settings.
std::string resolved(const JobConfig& config);

}  // namespace troupe::plan
