#include "actors/plan/job_config.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace troupe::plan {
namespace {

// What exists in the schema but not in the trainer yet: each may have a value up to `most`. Drop a line to lift it.
struct NotYet {
  const char* key;
  int (*asked)(const JobConfig&);
  int most;
};
constexpr NotYet kNotYet[] = {
    {"parallelism.tensor", [](const JobConfig& c) { return c.parallelism.tensor; }, 1},
    {"parallelism.context", [](const JobConfig& c) { return c.parallelism.context; }, 1},
    {"parallelism.expert", [](const JobConfig& c) { return c.parallelism.expert; }, 1},
};

// Collects faults; says a setting with its value and where that came from.
class Faults {
 public:
  explicit Faults(const ConfigOrigins& origins) : origins_(origins) {}

  template <class T>
  std::string say(const std::string& key, const T& value) const {
    const auto origin = origins_.find(key);
    const bool given = origin != origins_.end() && origin->second.given();
    return absl::StrCat(key, "=", value, given ? absl::StrCat(" (", origin->second.text(), ")") : "");
  }
  template <class... Parts>
  void add(const Parts&... parts) {
    errors_.push_back(absl::StrCat(parts...));
  }
  Status status() const { return config_errors(errors_); }

 private:
  const ConfigOrigins& origins_;
  std::vector<std::string> errors_;
};

// "240 or 248": the multiples of `unit` around `value`, none below one unit.
std::string nearest_multiples(std::int64_t value, std::int64_t unit) {
  const std::int64_t below = value / unit * unit;
  return below == 0 ? absl::StrCat(unit) : absl::StrCat(below, " or ", below + unit);
}

std::string divisors(int value) {
  std::vector<int> all;
  for (int d = 1; d <= value; ++d) {
    if (value % d == 0) all.push_back(d);
  }
  return absl::StrJoin(all, ", ");
}

void check_heads(const ModelSection& model, Faults& faults) {
  const bool gpt2 = model.family == "gpt2";
  if (model.heads && model.kv_heads) {
    const int heads = *model.heads, kv_heads = *model.kv_heads;
    if (heads % kv_heads != 0) {
      faults.add(faults.say("model.kv_heads", kv_heads), " must divide ", faults.say("model.heads", heads),
                 ": allowed are ", divisors(heads));
    } else if (gpt2 && heads != kv_heads) {
      faults.add(faults.say("model.kv_heads", kv_heads), " must equal ", faults.say("model.heads", heads),
                 " in model.family=gpt2; remove it");
    }
  }
  std::optional<int> head_dim = model.head_dim;
  if (!head_dim && model.hidden && model.heads) {
    if (*model.hidden % *model.heads != 0) {
      faults.add(faults.say("model.hidden", *model.hidden), " must be a multiple of ",
                 faults.say("model.heads", *model.heads), ": nearest is ",
                 nearest_multiples(*model.hidden, *model.heads), "; or give model.head_dim");
      return;
    }
    head_dim = *model.hidden / *model.heads;
  }
  if (head_dim && model.family && !gpt2 && *head_dim % 2 != 0) {
    faults.add(model.head_dim ? faults.say("model.head_dim", *head_dim)
                              : absl::StrCat("the head size model.hidden / model.heads = ", *head_dim),
               " must be even for rotary positions: nearest is ",
               *head_dim > 1 ? absl::StrCat(*head_dim - 1, " or ") : "", *head_dim + 1);
  }
}

void check_rope(const ModelSection& model, Faults& faults) {
  const RopeScalingSection& rope = model.rope_scaling;
  const bool sizes =
      rope.factor || rope.low_freq_factor || rope.high_freq_factor || rope.original_max_seq_len;
  if (model.family == "gpt2" && (model.rope_theta || rope.kind.value_or("none") != "none")) {
    faults.add(
        "model.family=gpt2 has learned positions, no rotary ones: remove model.rope_theta and "
        "model.rope_scaling");
    return;
  }
  const bool llama3 = rope.kind == "llama3" || (!rope.kind && !model.name.empty());
  if (sizes && !llama3) {
    faults.add("model.rope_scaling has sizes, but ",
               rope.kind ? faults.say("model.rope_scaling.kind", *rope.kind) : "no model.rope_scaling.kind",
               "; set it to llama3 or remove them");
  }
  if (rope.kind == "llama3" && model.name.empty() &&
      !(rope.factor && rope.low_freq_factor && rope.high_freq_factor && rope.original_max_seq_len)) {
    faults.add(faults.say("model.rope_scaling.kind", "llama3"),
               " also needs factor, low_freq_factor, high_freq_factor and original_max_seq_len");
  }
  if (rope.low_freq_factor && rope.high_freq_factor && *rope.low_freq_factor >= *rope.high_freq_factor) {
    faults.add(faults.say("model.rope_scaling.low_freq_factor", *rope.low_freq_factor), " must be below ",
               faults.say("model.rope_scaling.high_freq_factor", *rope.high_freq_factor));
  }
}

void check_model(const JobConfig& config, Faults& faults) {
  const ModelSection& model = config.model;
  if (model.name.empty()) {
    std::vector<std::string> missing;
    if (!model.family) missing.push_back("model.family");
    if (!model.vocab_size) missing.push_back("model.vocab_size");
    if (!model.layers) missing.push_back("model.layers");
    if (!model.hidden) missing.push_back("model.hidden");
    if (!model.heads) missing.push_back("model.heads");
    if (!missing.empty()) {
      faults.add("which model? Give a preset (model.name = \"gpt2-124m\") or all sizes; missing: ",
                 absl::StrJoin(missing, ", "));
    }
  }
  check_heads(model, faults);
  check_rope(model, faults);
  if (model.max_seq_len && config.training.seq_len > *model.max_seq_len) {
    faults.add(faults.say("training.seq_len", config.training.seq_len), " must be at most ",
               faults.say("model.max_seq_len", *model.max_seq_len));
  }
  if (model.layers && config.parallelism.pipeline > *model.layers) {
    faults.add(faults.say("parallelism.pipeline", config.parallelism.pipeline), " must be at most ",
               faults.say("model.layers", *model.layers), ", one block a stage");
  }
  if (model.vocab_size && config.data.end_of_document && *config.data.end_of_document >= *model.vocab_size) {
    faults.add(faults.say("data.end_of_document", *config.data.end_of_document), " must be below ",
               faults.say("model.vocab_size", *model.vocab_size));
  }
}

void check_batch(const JobConfig& config, Faults& faults) {
  const TrainingSection& training = config.training;
  // Pulled micro-batches go one by one: they need not come out even.
  const bool pulls = config.parallelism.balance == Balance::kPull;
  const std::int64_t unit = std::int64_t{training.micro_batch} * (pulls ? 1 : config.parallelism.data_parallel);
  if (pulls && (training.global_batch < 1 || training.global_batch % unit != 0)) {
    faults.add(faults.say("training.global_batch", training.global_batch), " must be a multiple of ",
               faults.say("training.micro_batch", training.micro_batch), ": nearest is ", nearest_multiples(training.global_batch, unit));
  } else if (training.global_batch < 1 || training.global_batch % unit != 0) {
    faults.add(faults.say("training.global_batch", training.global_batch), " must be a multiple of ",
               faults.say("training.micro_batch", training.micro_batch), " x ",
               faults.say("parallelism.data_parallel", config.parallelism.data_parallel), " = ", unit,
               ": nearest is ", nearest_multiples(training.global_batch, unit));
  }
  if (config.validation.interval > 0 && config.validation.batch % training.micro_batch != 0) {
    faults.add(faults.say("validation.batch", config.validation.batch), " must be a multiple of ",
               faults.say("training.micro_batch", training.micro_batch), ": nearest is ",
               nearest_multiples(config.validation.batch, training.micro_batch));
  }
}

void check_balance(const JobConfig& config, Faults& faults) {
  const ParallelismSection& parallelism = config.parallelism;
  if (parallelism.shard_group > 0 && parallelism.data_parallel % parallelism.shard_group != 0) {
    faults.add(faults.say("parallelism.shard_group", parallelism.shard_group), " must divide ",
               faults.say("parallelism.data_parallel", parallelism.data_parallel), ", or be 0 for all of them");
  } else if (parallelism.shard_group > 0 && parallelism.zero == 0) {
    faults.add(faults.say("parallelism.shard_group", parallelism.shard_group), " is for parallelism.zero >= 1: with 0 nothing is split; remove it");
  }
  const bool pulls = parallelism.balance == Balance::kPull;
  if (pulls && parallelism.zero > 1) {
    faults.add(faults.say("parallelism.balance", "pull"), " goes with parallelism.zero = 0 or 1, not with ",
               faults.say("parallelism.zero", parallelism.zero),
               ", which needs all replicas at each micro-batch: set parallelism.zero = 1, or parallelism.balance = \"static\"");
  }
  if (!pulls && !parallelism.replay.empty()) {
    faults.add(faults.say("parallelism.replay", parallelism.replay), " is for parallelism.balance=\"pull\" only; set that or remove it");
  }
}

void check_lr(const JobConfig& config, Faults& faults) {
  const LrSchedulerSection& lr = config.lr_scheduler;
  if (lr.warmup_steps > lr.total_steps) {
    faults.add(faults.say("lr_scheduler.warmup_steps", lr.warmup_steps), " must be at most ",
               faults.say("lr_scheduler.total_steps", lr.total_steps), " (training.steps unless given)");
  } else if (lr.decay_ratio && lr.decay != Decay::kWsd) {
    faults.add(faults.say("lr_scheduler.decay_ratio", *lr.decay_ratio),
               " is for lr_scheduler.decay=\"wsd\" only; set that or remove it");
  } else if (lr.decay == Decay::kWsd) {
    const double ratio = lr.decay_ratio.value_or(kDefaultDecayRatio);
    const double room =
        static_cast<double>(lr.total_steps - lr.warmup_steps) / static_cast<double>(lr.total_steps);
    if (ratio > room) {
      faults.add(faults.say("lr_scheduler.decay_ratio", ratio), " leaves no room for ",
                 faults.say("lr_scheduler.warmup_steps", lr.warmup_steps), " of ",
                 faults.say("lr_scheduler.total_steps", lr.total_steps), ": at most ", room);
    }
  }
}

StatusOr<JobConfig> finish(ConfigSchema& schema, JobConfig config, const std::string& origin) {
  TROUPE_RETURN_IF_ERROR(schema.status());
  config.origins = schema.origins();
  complete(config, std::filesystem::path(origin).stem().string());
  TROUPE_RETURN_IF_ERROR(validate(config));
  return config;
}

}  // namespace

StatusOr<JobConfig> load_job_config(const std::string& path, const std::vector<std::string>& overrides) {
  JobConfig config;
  ConfigSchema schema;
  declare_job(schema, config);
  (void)schema.parse_file(path);  // its errors stay in the schema's status
  (void)schema.override_with(overrides);
  return finish(schema, config, path);
}

StatusOr<JobConfig> parse_job_config(const std::string& text, const std::string& origin,
                                     const std::vector<std::string>& overrides) {
  JobConfig config;
  ConfigSchema schema;
  declare_job(schema, config);
  (void)schema.parse(text, origin);
  (void)schema.override_with(overrides);
  return finish(schema, config, origin);
}

void complete(JobConfig& config, const std::string& name) {
  if (config.job.output.empty()) {
    config.job.output = absl::StrCat("runs/", name);
  }
  if (config.training.global_batch == 0) config.training.global_batch = config.training.micro_batch;
  if (config.lr_scheduler.total_steps == 0) config.lr_scheduler.total_steps = config.training.steps;
  if (config.validation.batch == 0) config.validation.batch = config.training.micro_batch;
}

Status validate(const JobConfig& config) {
  Faults faults(config.origins);
  for (const NotYet& entry : kNotYet) {
    const int asked = entry.asked(config);
    if (asked > entry.most)
      faults.add(faults.say(entry.key, asked), ": not supported yet; at most ", entry.most);
  }
  if (config.device.kind == DeviceKind::kCuda) {
    faults.add(faults.say("device.kind", "cuda"), ": not supported yet; only cpu");
  }
  check_model(config, faults);
  check_batch(config, faults);
  check_balance(config, faults);
  check_lr(config, faults);
  if (config.validation.interval > 0 && config.data.validation.empty()) {
    faults.add(faults.say("validation.interval", config.validation.interval),
               " needs data.validation; give it or set the interval to 0");
  }
  if (config.limits.shutdown_seconds <= config.job.heartbeat_timeout_s) {
    // CASES T33: else the inner end comes before anybody knows whom it waits for.
    faults.add(faults.say("limits.shutdown_seconds", config.limits.shutdown_seconds), " is not longer than ",
               faults.say("job.heartbeat_timeout_s", config.job.heartbeat_timeout_s),
               ": who is gone must be known before the wait for it ends");
  }
  if (config.job.join_timeout_s <= config.job.heartbeat_timeout_s) {
    // CASES T33: else a process that was started again gives up before the others have noticed that its former one is gone.
    faults.add(faults.say("job.join_timeout_s", config.job.join_timeout_s), " is not longer than ",
               faults.say("job.heartbeat_timeout_s", config.job.heartbeat_timeout_s),
               ": who starts again must wait until the others know that they have to");
  }
  if (config.spike.factor != 0.0 && config.spike.factor <= 1.0) {
    faults.add(faults.say("spike.factor", config.spike.factor), " must be above 1, or 0 for off");
  }
  return faults.status();
}

Status ready_to_train(const JobConfig& config) {
  Faults faults(config.origins);
  if (config.data.train.empty()) {
    faults.add("data.train is not given; make tokens with `troupe data prepare` and give their prefix");
  }
  if (config.job.output.empty()) faults.add("job.output is not given; name the run's folder");
  return faults.status();
}

std::string resolved(const JobConfig& config) {
  JobConfig copy = config;
  ConfigSchema schema;
  declare_job(schema, copy);
  return schema.resolved();
}

}  // namespace troupe::plan
