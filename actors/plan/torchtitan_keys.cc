#include "actors/plan/torchtitan_keys.h"

#include <string>

namespace troupe::plan {

void refuse_torchtitan_keys(ConfigSchema& schema) {
  const struct {
    const char* keys;  // of one section, separated by spaces; "" is the whole section
    const char* section;
    const char* what_to_do;
  } kRefused[] = {
      {"config_file custom_config_module", "job", "give the file to `troupe train`; remove the key"},
      {"print_config save_config_file", "job",
       "the resolved config is always in <job.output>; remove the key"},
      {"", "profiling", "remove the section; probes are always on"},
      {"save_for_all_ranks enable_wandb", "metrics", "metrics are those of the whole job, in <job.output>/metrics.jsonl; remove the key"},
      {"disable_color_printing", "metrics", "remove the key"},
      {"flavor", "model", "a preset has one name: model.name = \"llama3-8b\""},
      {"hf_assets_path tokenizer_path", "model",
       "training reads tokens; the tokenizer belongs to `troupe data prepare`"},
      {"converters print_after_conversion", "model", "remove the key"},
      {"implementation early_step_in_backward", "optimizer", "there is one implementation; remove the key"},
      {"dataset", "training", "prepare it with `troupe data prepare` and give data.train"},
      {"enable_cpu_offload", "training", "remove the key"},
      {"mixed_precision_reduce", "training", "reductions are always fp32; remove the key"},
      {"gc_freq gc_debug dataloader", "training", "there is nothing of the kind here; remove the key"},
      {"data_parallel_shard_degree fsdp_reshard_after_forward", "parallelism",
       "use parallelism.data_parallel, parallelism.zero and parallelism.shard_group"},
      {"disable_loss_parallel enable_async_tensor_parallel pipeline_parallel_expert_parallel_overlap",
       "parallelism", "overlap needs no switch here; remove the key"},
      {"module_fqns_per_model_part pipeline_parallel_first_stage_less_layers "
       "pipeline_parallel_last_stage_less_layers "
       "pipeline_parallel_layers_per_stage",
       "parallelism", "the plan divides the layers; remove the key"},
      {"pipeline_parallel_schedule_csv", "parallelism", "use parallelism.schedule"},
      {"pipeline_parallel_microbatch_size", "parallelism", "use training.micro_batch"},
      {"context_parallel_load_balancer context_parallel_rotate_method expert_tensor_parallel_degree "
       "expert_parallel_comm_backend",
       "parallelism", "remove the key"},
      {"enable", "checkpoint", "a run always saves at its end; checkpoint.interval = 0 saves then only"},
      {"folder", "checkpoint", "checkpoints are in <job.output>/checkpoints; use job.output"},
      {"initial_load_path initial_load_model_only initial_load_in_hf initial_load_in_hf_quantized "
       "exclude_from_loading",
       "checkpoint", "starting from other weights is not there yet; a run goes on from its own folder"},
      {"last_save_model_only last_save_in_hf export_dtype", "checkpoint",
       "checkpoints are safetensors with Hugging Face names already; remove the key"},
      {"async_mode", "checkpoint", "saves are always asynchronous; remove the key"},
      {"load_step load_only", "checkpoint", "checkpoint.resume takes the newest complete one"},
      {"enable_first_step_checkpoint create_seed_checkpoint enable_ft_dataloader_checkpoints", "checkpoint",
       "remove the key"},
      {"selective_ac_option per_op_sac_force_recompute_mm_shapes_by_fqns early_stop memory_budget "
       "visualize_memory_budget_pareto preserve_rng_state determinism_check debug",
       "activation_checkpoint", "use training.recompute = none | selective | full"},
      {"deterministic deterministic_warn_only", "debug", "runs are always deterministic; remove the key"},
      {"moe_force_load_balance", "debug", "remove the key"},
      {"enable", "validation", "validation.interval = 0 switches it off"},
      {"dataset", "validation", "prepare it with `troupe data prepare` and give data.validation"},
      {"seq_len", "validation", "it is training.seq_len"},
      {"dataloader", "validation", "remove the key"},
      {"", "compile", "nothing is compiled at run time; remove the section"},
      {"", "quantize", "training.dtype = bf16 | fp32 is what there is; remove the section"},
      {"", "comm", "remove the section"},
      {"", "fault_tolerance", "remove the section"},
      {"", "memory_estimation", "`troupe plan` prints the memory; remove the section"},
      {"", "experimental", "remove the section"},
  };
  for (const auto& group : kRefused) {
    const std::string section = group.section;
    std::string key;
    for (const char* c = group.keys;; ++c) {
      if (*c != ' ' && *c != '\0') {
        key += *c;
        continue;
      }
      schema.refuse(key.empty() ? section : section + "." + key, group.what_to_do);
      key.clear();
      if (*c == '\0') break;
    }
  }
}

}  // namespace troupe::plan
