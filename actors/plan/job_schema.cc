// The names of all settings: ours, torchtitan's that mean the same (alias), those of other trainers that a
// person may type (known_as), and torchtitan's that we do not have (refuse).
#include "actors/plan/job_config.h"
#include "actors/plan/torchtitan_keys.h"

namespace troupe::plan {
namespace {

void declare_job_and_device(ConfigSchema& schema, JobConfig& config) {
  schema.describe_section("job", "what this run is");
  schema.add("job.output", &config.job.output, "folder of the run; empty: runs/<config file>")
      .alias("job.dump_folder")
      .known_as({"output_dir", "out_dir", "save", "out"});
  schema.add("job.seed", &config.job.seed, "of initialisation, shuffling and dropout")
      .at_least(0)
      .alias("debug.seed")
      .alias("training.seed");
  schema.add("job.description", &config.job.description, "a word for people");
  schema
      .add("job.heartbeat_timeout_s", &config.job.heartbeat_timeout_s,
           "a process that is not heard of for so long is taken for dead, and the job ends")
      .between(0.5, 3600)
      .known_as({"timeout", "heartbeat_timeout"});
  schema
      .add("job.join_timeout_s", &config.job.join_timeout_s,
           "so long a process waits at the start until all others have come; then it ends and names who is missing")
      .between(1, 3600)
      .known_as({"join_timeout", "rendezvous_timeout", "init_timeout"});
  schema.add("job.inspect_listen", &config.job.inspect_listen,
             "HOST:PORT where rank 0 can also be looked into, such as 127.0.0.1:7070; other than loopback addresses need the job's token");
  schema
      .add("job.stall_factor", &config.job.stall_factor,
           "no step closed for so many times the median step: what holds the job up is reported, in the log and in output/stalls")
      .between(1, 1e6)
      .known_as({"stall_threshold", "straggler_factor"});
  schema
      .add("job.stall_min_s", &config.job.stall_min_s, "but not before so many seconds; before the first step: nothing done at all for so long")
      .between(0.1, 1e6)
      .known_as({"stall_timeout", "watchdog_timeout", "nccl_timeout"});
  schema
      .add_choice("job.on_stall", &config.job.on_stall, {{"continue", OnStall::kContinue}, {"stop", OnStall::kStop}},
                  "after the report: go on, or end the job with an error (not while it waits for a save or an evaluation)")
      .known_as({"stall_action"});

  schema.describe_section("device", "what computes");
  schema
      .add_choice("device.kind", &config.device.kind,
                  {{"cpu", DeviceKind::kCpu}, {"cuda", DeviceKind::kCuda}},
                  "where operations run; also --device")
      .option("device")
      .known_as({"type", "gpu"});
  schema
      .add("device.threads", &config.device.threads, "compute threads; 0: all cores / ranks on this machine")
      .between(0, 4096)
      .known_as({"num_threads", "cores"});
}

void declare_model(ConfigSchema& schema, ModelSection& model) {
  schema.describe_section("model", "a preset by name, sizes inline, or both: inline wins");
  const double most = 1 << 30;
  schema.add("model.name", &model.name, "preset, such as gpt2-124m or llama3-8b")
      .known_as({"preset", "model_name"});
  schema.add("model.family", &model.family, "kind of block")
      .one_of({"gpt2", "llama", "qwen2", "qwen3"})
      .known_as({"model_type", "architecture", "architectures"});
  schema.add("model.vocab_size", &model.vocab_size, "tokens that exist").between(1, most).known_as({"vocab"});
  schema
      .add("model.pad_vocab_multiple", &model.pad_vocab_multiple,
           "rows are padded to a multiple of this, masked")
      .between(1, 65536)
      .known_as({"make_vocab_size_divisible_by"});
  schema.add("model.layers", &model.layers, "transformer blocks")
      .between(1, 4096)
      .known_as({"num_hidden_layers", "n_layer", "n_layers", "num_layers"});
  schema.add("model.hidden", &model.hidden, "width of the residual stream")
      .between(1, 1 << 20)
      .known_as({"hidden_size", "n_embd", "dim", "d_model"});
  schema.add("model.heads", &model.heads, "attention heads")
      .between(1, 4096)
      .known_as({"num_attention_heads", "n_head", "n_heads", "num_heads"});
  schema.add("model.kv_heads", &model.kv_heads, "key-value heads; heads is a multiple of it")
      .between(1, 4096)
      .known_as({"num_key_value_heads", "n_kv_heads", "num_query_groups"});
  schema.add("model.head_dim", &model.head_dim, "size of a head; not given: hidden / heads")
      .between(1, 65536)
      .known_as({"head_size", "kv_channels"});
  schema.add("model.intermediate", &model.intermediate, "width of the MLP")
      .between(1, 1 << 22)
      .known_as({"intermediate_size", "ffn_hidden_size", "n_inner", "hidden_dim"});
  schema.add("model.max_seq_len", &model.max_seq_len, "longest sequence the model is made for")
      .between(1, most)
      .known_as({"max_position_embeddings", "n_positions", "n_ctx", "context_length"});
  schema.add("model.norm_epsilon", &model.norm_epsilon, "added under the root of a norm")
      .above(0)
      .below(1)
      .known_as({"rms_norm_eps", "layer_norm_epsilon", "norm_eps"});
  schema.add("model.rope_theta", &model.rope_theta, "base of the rotary angles")
      .above(0)
      .known_as({"rotary_base"});
  schema.add("model.tied_embeddings", &model.tied_embeddings, "the head's weight is the embedding")
      .known_as({"tie_word_embeddings", "enable_weight_tying"});
  schema.add("model.qkv_bias", &model.qkv_bias, "query, key and value have a bias")
      .known_as({"attention_bias", "add_qkv_bias"});
  schema.add("model.activation", &model.activation, "of the MLP")
      .one_of({"silu", "gelu", "gelu_tanh"})
      .also_written("swiglu", "silu")
      .also_written("gelu_new", "gelu_tanh")
      .also_written("gelu_pytorch_tanh", "gelu_tanh")
      .known_as({"hidden_act", "activation_function"});
  schema.add("model.dropout", &model.dropout, "of the embedding, the attention probabilities and the two residual branches")
      .at_least(0)
      .below(1)
      .known_as({"resid_pdrop", "embd_pdrop", "attn_pdrop", "hidden_dropout"});
  schema.add("model.init_std", &model.init_std, "standard deviation of the first weights")
      .above(0)
      .known_as({"initializer_range", "init_method_std"});
  RopeScalingSection& rope = model.rope_scaling;
  schema.add("model.rope_scaling.kind", &rope.kind, "how rotary angles are stretched")
      .one_of({"none", "llama3"})
      .known_as({"rope_type", "type"});
  schema.add("model.rope_scaling.factor", &rope.factor, "stretch of the longest waves").at_least(1);
  schema
      .add("model.rope_scaling.low_freq_factor", &rope.low_freq_factor,
           "waves longer than original / this stretch")
      .above(0);
  schema
      .add("model.rope_scaling.high_freq_factor", &rope.high_freq_factor,
           "waves shorter than original / this do not")
      .above(0);
  schema
      .add("model.rope_scaling.original_max_seq_len", &rope.original_max_seq_len, "length before the stretch")
      .between(1, most)
      .known_as({"original_max_position_embeddings"});
}

void declare_data_and_training(ConfigSchema& schema, JobConfig& config) {
  DataSection& data = config.data;
  schema.describe_section("data", "tokens, as `troupe data prepare` or others write them");
  schema.add("data.train", &data.train, "prefix, file or pattern")
      .alias("training.dataset_path")
      .known_as({"path", "data_path", "train_data", "dataset", "input_bin"});
  schema.add("data.validation", &data.validation, "the same for validation")
      .alias("validation.dataset_path")
      .known_as({"valid", "val", "eval", "val_data", "input_val_bin"});
  schema.add_choice(
      "data.format", &data.format,
      {{"auto", DataFormat::kAuto}, {"megatron", DataFormat::kMegatron}, {"llmc", DataFormat::kLlmc}},
      "auto: by the file's first bytes");
  schema.add("data.document_mask", &data.document_mask, "attention stays within a document")
      .known_as({"reset_attention_mask"});
  schema.add("data.shuffle", &data.shuffle, "another order in each epoch, from job.seed; false: in order, again and again");
  schema
      .add("data.end_of_document", &data.end_of_document,
           "token that ends a document where the files do not say")
      .at_least(0)
      .known_as({"eod", "eos", "eot", "eod_token", "eos_token_id", "bos"});

  TrainingSection& training = config.training;
  schema.describe_section("training", "one step is global_batch sequences of seq_len tokens");
  schema.add("training.steps", &training.steps, "optimizer steps of the whole run")
      .at_least(1)
      .known_as({"max_steps", "num_steps", "train_iters", "iterations"});
  schema.add("training.seq_len", &training.seq_len, "tokens of a sequence")
      .between(1, 1 << 24)
      .known_as({"sequence_length", "seq_length", "max_seq_len", "seqlen", "block_size", "context_length"});
  schema.add("training.micro_batch", &training.micro_batch, "sequences computed at once")
      .between(1, 1 << 20)
      .alias("training.local_batch_size")
      .known_as({"micro_batch_size", "per_device_train_batch_size", "batch_size"});
  schema
      .add("training.global_batch", &training.global_batch,
           "sequences of a step over all replicas; 0: one micro-batch")
      .between(0, 1 << 30)
      .alias("training.global_batch_size")
      .known_as({"train_batch_size"});
  schema
      .add_choice("training.dtype", &training.dtype,
                  {{"bf16", ComputeType::kBf16},
                   {"fp32", ComputeType::kFp32},
                   {"bfloat16", ComputeType::kBf16},
                   {"float32", ComputeType::kFp32}},
                  "of compute; master weights, sums and reductions are fp32")
      .alias("training.mixed_precision_param")
      .known_as({"precision", "mixed_precision"});
  schema.add("training.max_norm", &training.max_norm, "gradients are clipped to this norm; 0: not")
      .at_least(0)
      .known_as({"clip_grad", "grad_clip", "max_grad_norm", "gradient_clipping"});
  schema
      .add_choice(
          "training.recompute", &training.recompute,
          {{"none", Recompute::kNone}, {"selective", Recompute::kSelective}, {"full", Recompute::kFull}},
          "what a block computes again instead of keeping")
      .alias("activation_checkpoint.mode")
      .known_as({"activation_checkpointing", "gradient_checkpointing", "recompute_granularity"});
}

void declare_update(ConfigSchema& schema, JobConfig& config) {
  OptimizerSection& optimizer = config.optimizer;
  schema.describe_section("optimizer", "decoupled weight decay, on matrices only");
  schema.add("optimizer.name", &optimizer.name, "update rule").one_of({"adamw"});
  schema.add("optimizer.lr", &optimizer.lr, "peak learning rate")
      .at_least(0)
      .known_as({"learning_rate", "max_lr"});
  schema.add("optimizer.beta1", &optimizer.beta1, "decay of the first moment")
      .at_least(0)
      .below(1)
      .known_as({"adam_beta1", "betas"});
  schema.add("optimizer.beta2", &optimizer.beta2, "decay of the second moment")
      .at_least(0)
      .below(1)
      .known_as({"adam_beta2"});
  schema.add("optimizer.epsilon", &optimizer.epsilon, "added to the root of the second moment")
      .above(0)
      .alias("optimizer.eps")
      .known_as({"adam_eps", "adam_epsilon"});
  schema.add("optimizer.weight_decay", &optimizer.weight_decay, "times lr, off the weight").at_least(0);

  LrSchedulerSection& lr = config.lr_scheduler;
  schema.describe_section("lr_scheduler", "linear warmup, then the decay");
  schema.add("lr_scheduler.warmup_steps", &lr.warmup_steps, "steps until the peak")
      .at_least(0)
      .known_as({"warmup", "warmup_iters", "lr_warmup_iters", "num_warmup_steps"});
  schema
      .add_choice("lr_scheduler.decay", &lr.decay,
                  {{"cosine", Decay::kCosine},
                   {"linear", Decay::kLinear},
                   {"wsd", Decay::kWsd},
                   {"constant", Decay::kConstant}},
                  "form of the decay; wsd: constant, then linear over the last decay_ratio")
      .alias("lr_scheduler.decay_type")
      .known_as({"lr_decay_style", "lr_scheduler_type", "kind"});
  schema.add("lr_scheduler.total_steps", &lr.total_steps, "step at which the decay ends; 0: training.steps")
      .at_least(0)
      .known_as({"decay_steps", "lr_decay_iters", "lr_decay_steps"});
  schema
      .add("lr_scheduler.decay_ratio", &lr.decay_ratio,
           "wsd: part of total_steps that decays; not given: 0.1")
      .above(0)
      .at_most(1)
      .known_as({"wsd_decay_ratio", "cooldown"});
  schema.add("lr_scheduler.min_lr_factor", &lr.min_lr_factor, "the decay ends at this times lr")
      .between(0, 1)
      .known_as({"min_lr", "min_lr_ratio"});
}

void declare_plan(ConfigSchema& schema, ParallelismSection& parallelism) {
  schema.describe_section("parallelism", "how many ways each axis is split");
  schema.add("parallelism.data_parallel", &parallelism.data_parallel, "replicas")
      .between(1, 1 << 20)
      .alias("parallelism.data_parallel_replicate_degree")
      .known_as({"dp", "replicas", "data_parallel_size", "data_parallel_degree"});
  schema.add("parallelism.pipeline", &parallelism.pipeline, "stages, at most model.layers")
      .between(1, 4096)
      .alias("parallelism.pipeline_parallel_degree")
      .known_as({"pp", "stages", "pipeline_model_parallel_size", "pipeline_parallel"});
  schema.add("parallelism.tensor", &parallelism.tensor, "parts of a matrix")
      .between(1, 4096)
      .alias("parallelism.tensor_parallel_degree")
      .known_as({"tp", "tensor_model_parallel_size", "tensor_parallel"});
  schema.add("parallelism.context", &parallelism.context, "parts of a sequence")
      .between(1, 4096)
      .alias("parallelism.context_parallel_degree")
      .known_as({"cp", "context_parallel_size", "context_parallel"});
  schema.add("parallelism.expert", &parallelism.expert, "parts of the experts")
      .between(1, 4096)
      .alias("parallelism.expert_parallel_degree")
      .known_as({"ep", "expert_model_parallel_size", "expert_parallel"});
  schema
      .add("parallelism.zero", &parallelism.zero,
           "0 nothing, 1 optimizer, 2 and gradients, 3 and parameters are split")
      .between(0, 3)
      .known_as({"zero_stage", "fsdp", "stage"});
  schema
      .add("parallelism.shard_group", &parallelism.shard_group,
           "with zero >= 1, hybrid sharding: so many neighbouring replicas split between them, those of a machine, say, and the groups repeat "
           "each other; divides data_parallel; 0: all replicas split")
      .between(0, 1 << 20)
      .known_as({"data_parallel_shard_degree", "hybrid_shard", "hsdp", "zero_hpz_partition_size"});
  schema
      .add("parallelism.prefetch", &parallelism.prefetch,
           "with zero = 3: blocks gathered ahead of the one that computes; at most that many and one are gathered at once")
      .between(0, 1024)
      .known_as({"stage3_prefetch_bucket_size", "forward_prefetch", "limit_all_gathers"});
  schema
      .add("parallelism.reshard_after_forward", &parallelism.reshard_after_forward,
           "with zero = 3: weights are gathered again for the backward; false keeps all of a step's, as zero = 2 does");
  schema
      .add_choice("parallelism.schedule", &parallelism.schedule,
                  {{"1f1b", ScheduleName::kOneForwardOneBackward}, {"gpipe", ScheduleName::kGpipe}},
                  "order of forward and backward over stages")
      .alias("parallelism.pipeline_parallel_schedule")
      .known_as({"pipeline_schedule"});
  schema
      .add_choice("parallelism.balance", &parallelism.balance, {{"static", Balance::kStatic}, {"pull", Balance::kPull}},
                  "static: micro-batches go to replicas by index; pull: to the replica that is about to compute, zero 0 and 1 only")
      .known_as({"load_balance", "load_balancing"});
  schema
      .add("parallelism.replay", &parallelism.replay,
           "with pull: metrics.jsonl of an earlier run, whose assignment is followed, bit by bit")
      .known_as({"replay_assignment"});
}

void declare_care(ConfigSchema& schema, JobConfig& config) {
  schema.describe_section("checkpoint", "in <job.output>/checkpoints");
  schema.add("checkpoint.interval", &config.checkpoint.interval, "steps between saves; 0: at the end only")
      .at_least(0)
      .known_as({"save_interval", "save_steps", "save_every", "freq"});
  schema
      .add("checkpoint.keep_latest_k", &config.checkpoint.keep_latest_k,
           "older ones are removed; 0: keep all")
      .at_least(0)
      .known_as({"save_total_limit", "keep", "keep_last"});
  schema
      .add("checkpoint.resume", &config.checkpoint.resume,
           "go on from the newest complete one; false: refuse a folder that holds a run")
      .known_as({"load", "resume_from_checkpoint"});
  schema.add("checkpoint.allow_other_data", &config.checkpoint.allow_other_data,
             "resume although data.train, data.shuffle, training.seq_len or job.seed is another: samples may repeat");

  schema.describe_section("validation", "loss on data.validation, beside training");
  schema.add("validation.interval", &config.validation.interval, "steps between validations; 0: never")
      .at_least(0)
      .alias("validation.freq")
      .known_as({"eval_interval", "eval_steps", "val_loss_every"});
  schema.add("validation.steps", &config.validation.steps, "batches of one validation, divided over the replicas")
      .at_least(1)
      .known_as({"eval_iters", "max_steps"});
  schema.add("validation.batch", &config.validation.batch, "sequences of a batch, computed by training.micro_batch; 0: one of those")
      .between(0, 1 << 20)
      .alias("validation.local_batch_size")
      .known_as({"micro_batch", "batch_size"});

  schema.describe_section("spike", "steps whose loss jumps; steps that are not finite are always skipped");
  schema.add("spike.factor", &config.spike.factor, "a loss above this times the average is a spike; 0: off")
      .at_least(0)
      .known_as({"threshold", "spiky_loss_factor"});
  schema.add("spike.ema", &config.spike.ema, "weight of the past in the average").at_least(0).below(1);
  schema.add_choice("spike.action", &config.spike.action, {{"skip", SpikeAction::kSkip}},
                    "what happens to the step");
  schema.add("spike.max_skipped", &config.spike.max_skipped, "this many skipped in a row end the run")
      .at_least(1);

  schema.describe_section("metrics", "every step goes to <job.output>/metrics.jsonl all the same");
  schema.add("metrics.log_every", &config.metrics.log_every, "steps between lines on the terminal")
      .at_least(1)
      .alias("metrics.log_freq")
      .known_as({"log_interval", "logging_steps"});
  schema.add("metrics.tensorboard", &config.metrics.tensorboard, "every step goes to a file for TensorBoard too").alias("metrics.enable_tensorboard");
  schema.add("metrics.tensorboard_folder", &config.metrics.tensorboard_folder, "where it lies: below job.output, or an absolute path")
      .alias("metrics.save_tb_folder")
      .known_as({"tb_folder", "logdir", "tensorboard_dir"});

  schema.describe_section("limits", "deadlines");
  schema.add("limits.shutdown_seconds", &config.limits.shutdown_seconds, "then the stop names who blocks it")
      .above(0);
}

}  // namespace

void declare_job(ConfigSchema& schema, JobConfig& config) {
  declare_job_and_device(schema, config);
  declare_model(schema, config.model);
  declare_data_and_training(schema, config);
  declare_update(schema, config);
  declare_plan(schema, config.parallelism);
  declare_care(schema, config);
  refuse_torchtitan_keys(schema);
}

}  // namespace troupe::plan
