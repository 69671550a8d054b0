#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "actors/plan/job_config.h"
#include "actors/plan/placement.h"
#include "tools/troupe/commands.h"

namespace troupe::tool {
namespace {

struct Job {
  plan::JobConfig config;
  std::string name;          // letters, digits and '-': what Kubernetes allows
  std::string command;       // troupe train CONFIG OVERRIDES, for a shell
  int ranks = 1;
};

// For a POSIX shell.
std::string quoted(const std::string& word) {
  if (word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,@+") == std::string::npos && !word.empty()) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

// A string of YAML, in double quotes. Kubernetes would put a variable in the place of $(NAME).
std::string yaml_command(const std::string& command) {
  return absl::StrCat("\"", absl::StrReplaceAll(command, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}, {"$(", "$$("}}), "\"");
}

StatusOr<Job> job_of(const ManifestArguments& arguments) {
  Job job;
  TROUPE_ASSIGN_OR_RETURN(job.config, plan::load_job_config(arguments.config, arguments.overrides));
  TROUPE_RETURN_IF_ERROR(plan::ready_to_train(job.config));
  for (const char c : std::filesystem::path(arguments.config).stem().string()) {
    job.name += absl::ascii_isalnum(static_cast<unsigned char>(c)) ? absl::ascii_tolower(static_cast<unsigned char>(c)) : '-';
  }
  const auto& parallelism = job.config.parallelism;
  TROUPE_ASSIGN_OR_RETURN(const auto placement, plan::Placement::of(parallelism.data_parallel, parallelism.pipeline, arguments.ranks));
  job.ranks = placement.world();
  job.command = quoted(arguments.binary) + " train " + quoted(arguments.config);
  for (const auto& word : arguments.overrides) absl::StrAppend(&job.command, " ", quoted(word));
  return job;
}

}  // namespace

// For sbatch. The secret is drawn when the job starts, so that a rank is known by more than what anybody can guess.
Status manifest_slurm(const ManifestArguments& arguments) {
  TROUPE_ASSIGN_OR_RETURN(const Job job, job_of(arguments));
  const int per_node = std::min(job.ranks, arguments.ranks_per_node);
  if (job.ranks % per_node != 0) {
    return absl::InvalidArgumentError(absl::StrCat("--ranks-per-node ", per_node, " does not divide the ", job.ranks,
                                                   " ranks of the job: all nodes get as many"));
  }
  std::string text = absl::StrFormat(
      "#!/bin/bash\n#SBATCH --job-name=%s\n#SBATCH --nodes=%d\n#SBATCH --ntasks=%d\n#SBATCH --ntasks-per-node=%d\n#SBATCH --cpus-per-task=%d\n"
      "#SBATCH --output=%s-%%j.log\n#SBATCH --signal=TERM@120\n",
      job.name, job.ranks / per_node, job.ranks, per_node, arguments.cpus_per_rank, job.name);
  if (!arguments.time.empty()) absl::StrAppend(&text, "#SBATCH --time=", arguments.time, "\n");
  if (!arguments.partition.empty()) absl::StrAppend(&text, "#SBATCH --partition=", arguments.partition, "\n");
  absl::StrAppend(&text,
                  "# TERM two minutes before the end: the job saves a checkpoint; submitted again, it goes on from there.\n"
                  "export TROUPE_SECRET=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \\n')\n"
                  "exec srun --kill-on-bad-exit=1 ", job.command, "\n");
  std::fputs(text.c_str(), stdout);
  return ok();
}

// An indexed Job and the headless Service by which its first pod is found; a rank for each pod. The secret is drawn here, since the pods
// have to be told the same.
Status manifest_kubernetes(const ManifestArguments& arguments) {
  TROUPE_ASSIGN_OR_RETURN(const Job job, job_of(arguments));
  if (arguments.image.empty()) return absl::InvalidArgumentError("--image is not given: name a container image that has the binary, as --binary says");
  std::printf(
      "# The ranks know each other by a secret, which is not in this file. Once, before the Job:\n"
      "#   kubectl create secret generic %1$s-secret --from-literal=secret=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \\n')\n"
      "apiVersion: v1\nkind: Service\nmetadata:\n  name: %1$s\nspec:\n  clusterIP: None\n  selector:\n    job-name: %1$s\n---\n"
      "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: %1$s\nspec:\n  completionMode: Indexed\n  completions: %2$d\n  parallelism: %2$d\n"
      "  backoffLimit: 0\n  template:\n    spec:\n      subdomain: %1$s\n      restartPolicy: Never\n      terminationGracePeriodSeconds: 120\n"
      "      containers:\n      - name: rank\n        image: %3$s\n        command: [\"/bin/sh\", \"-c\", %4$s]\n        env:\n"
      "        - {name: WORLD_SIZE, value: \"%2$d\"}\n        - {name: LOCAL_RANK, value: \"0\"}\n        - {name: LOCAL_WORLD_SIZE, value: \"1\"}\n"
      "        - {name: MASTER_ADDR, value: \"%1$s-0.%1$s\"}\n        - {name: MASTER_PORT, value: \"29500\"}\n"
      "        - {name: TROUPE_SECRET, valueFrom: {secretKeyRef: {name: %1$s-secret, key: secret}}}\n"
      "        resources:\n          requests: {cpu: \"%5$d\"}\n"
      "        volumeMounts:\n        - {name: shared, mountPath: %6$s}\n      volumes:\n      - name: shared\n        persistentVolumeClaim: {claimName: %7$s}\n",
      job.name.c_str(), job.ranks, arguments.image.c_str(), yaml_command("export RANK=$JOB_COMPLETION_INDEX; exec " + job.command).c_str(),
      arguments.cpus_per_rank, arguments.mount.c_str(), arguments.claim.c_str());
  return ok();
}

}  // namespace troupe::tool
