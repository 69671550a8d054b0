// A whole training job on a tiny model and corpus, for tests: config, folder, run, what came out.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/train/training_job.h"

namespace troupe::test {

// A folder below the system's temporary one, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Writes text documents of pseudo-random words and prepares them with the byte tokenizer; gives the corpus's prefix. With validation:
// PREFIX_train and PREFIX_validation.
std::string make_corpus(const std::string& folder, int documents, double validation = 0);

struct Outcome {
  Status status;
  std::vector<int> steps;                     // the lines of metrics.jsonl
  std::vector<double> losses;                 // of each step
  std::vector<double> norms;
  std::map<int, double> validation;           // step -> loss
  std::vector<std::string> sample_hashes;
  std::vector<bool> skipped;
  std::vector<std::vector<std::vector<int>>> assigned;  // by step and replica, where replicas pull
};
Outcome read_metrics(const std::string& output);

// Builds the job of a config text in a world; nothing has started.
StatusOr<std::unique_ptr<actors::TrainingJob>> make_job(const std::string& config, const std::vector<std::string>& overrides,
                                                        const actors::World& world, bool save = true);

// The plan for this machine, over so many processes; 0: one for each replica.
StatusOr<plan::Plan> plan_for(const plan::JobConfig& job, const kernels::Table& kernels, int processes = 0);

// Builds and runs the job of a config text ("[model]...") with overrides; real threads. All its ranks are in this process, `processes` of
// them; 0: one for each replica.
Outcome run_job(const std::string& config, const std::vector<std::string>& overrides, const kernels::Table& kernels, int processes = 0);

// All ranks of a job in this process, over the transport between threads.
Status run_replicas(const plan::JobConfig& job, const actors::World& world, int processes = 0);

// A small Llama-style byte model: 4 layers, hidden 32, 4 heads of 8, 2 kv heads, seq_len 16, global_batch 4, fp32, 6 steps.
std::string tiny_config(const std::string& corpus, const std::string& output);

}  // namespace troupe::test
