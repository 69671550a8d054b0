#include "tests/support/tiny_job.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "actors/train/local_replicas.h"
#include "comm/local/local_transport.h"
#include "models/data/prepare.h"
#include "runtime/base/rng.h"

namespace troupe::test {

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "troupe-XXXXXX").string();
  TROUPE_CHECK(mkdtemp(pattern.data()) != nullptr) << pattern;
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() { std::filesystem::remove_all(path_); }

std::string make_corpus(const std::string& folder, int documents, double validation) {
  const std::string text = folder + "/text";
  std::filesystem::create_directories(text);
  const RandomStream random({.seed = 99});
  std::uint64_t draw = 0;
  const char* words[] = {"actor ", "stage ", "credit ", "the ", "and ", "edge ", "of ", "loss ", "event ", "norm "};
  for (int i = 0; i < documents; ++i) {
    std::ofstream file(absl::StrCat(text, "/", i, ".txt"));
    const auto count = 5 + random.at(draw++) % 40;
    for (std::uint32_t word = 0; word < count; ++word) file << words[random.at(draw++) % 10];
  }
  const data::ByteTokenizer tokenizer;
  const auto report = data::prepare({text}, tokenizer, {.output = folder + "/corpus", .validation_fraction = validation});
  TROUPE_CHECK(report.ok()) << std::string(report.status().message());
  return folder + "/corpus";
}

Outcome read_metrics(const std::string& output) {
  Outcome outcome;
  std::ifstream file(output + "/metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    const auto value = [&](const char* key) { return json[key].is_null() ? std::nan("") : json[key].get<double>(); };
    outcome.steps.push_back(json["step"].get<int>());
    outcome.losses.push_back(value("loss"));
    outcome.norms.push_back(value("grad_norm"));
    outcome.sample_hashes.push_back(json["sample_hash"].get<std::string>());
    outcome.skipped.push_back(json["skipped"].get<bool>());
    if (json.contains("assigned")) outcome.assigned.push_back(json["assigned"].get<std::vector<std::vector<int>>>());
    if (json.contains("val_loss")) outcome.validation[json["step"].get<int>()] = json["val_loss"].get<double>();
  }
  return outcome;
}

StatusOr<plan::Plan> plan_for(const plan::JobConfig& job, const kernels::Table& kernels, int processes) {
  plan::Cluster cluster = plan::Cluster::of_this_machine(job);
  cluster.processes = processes;
  return plan::make_plan(job, cluster, kernels);
}

StatusOr<std::unique_ptr<actors::TrainingJob>> make_job(const std::string& config, const std::vector<std::string>& overrides,
                                                        const actors::World& world, bool save) {
  TROUPE_ASSIGN_OR_RETURN(auto job, plan::parse_job_config(config, "test.toml", overrides));
  TROUPE_ASSIGN_OR_RETURN(auto plan, plan_for(job, world.kernels, world.transport ? world.transport->world() : 1));
  return actors::TrainingJob::create(std::move(job), std::move(plan), world, {.save = save, .console = actors::Reporter::Console::kNone});
}

Outcome run_job(const std::string& config, const std::vector<std::string>& overrides, const kernels::Table& kernels, int processes) {
  const SteadyClock clock;
  const auto job = plan::parse_job_config(config, "test.toml", overrides);
  if (!job.ok()) return {.status = job.status()};
  const auto world = actors::World::on_this_machine(kernels, clock);
  const auto status = [&]() -> Status {
    if (job->parallelism.data_parallel > 1 || processes > 1) return run_replicas(*job, world, processes);
    TROUPE_ASSIGN_OR_RETURN(auto made, make_job(config, overrides, world));
    return made->run();
  }();  // what it wrote is on the disk
  Outcome outcome = read_metrics(job->job.output);
  outcome.status = status;
  return outcome;
}

Status run_replicas(const plan::JobConfig& job, const actors::World& world, int processes) {
  TROUPE_ASSIGN_OR_RETURN(auto plan, plan_for(job, world.kernels, processes));
  comm::LocalHub hub(plan.placement.world());
  std::vector<std::unique_ptr<comm::Transport>> transports;
  std::vector<comm::Transport*> by_rank;
  for (int rank = 0; rank < hub.world(); ++rank) {
    transports.push_back(hub.transport(Rank(rank)));
    by_rank.push_back(transports.back().get());
  }
  TROUPE_ASSIGN_OR_RETURN(auto replicas, actors::LocalReplicas::create(job, std::move(plan), world, {.console = actors::Reporter::Console::kNone}, by_rank));
  return replicas->run();
}

std::string tiny_config(const std::string& corpus, const std::string& output) {
  return absl::StrCat(R"(
[job]
output = ")", output, R"("
seed = 7
[device]
threads = 2
[model]
family = "llama"
vocab_size = 257
layers = 4
hidden = 32
heads = 4
kv_heads = 2
intermediate = 48
max_seq_len = 64
[data]
train = ")", corpus, R"("
[training]
steps = 6
seq_len = 16
micro_batch = 1
global_batch = 4
dtype = "fp32"
[optimizer]
lr = 0.01
[checkpoint]
interval = 0
)");
}

}  // namespace troupe::test
