// The commands of the one binary, each with its arguments; main.cc declares the options that fill them.
//
// A command's Status becomes the exit code: 0 if ok, 2 for bad input, 1 for the rest; train and launch say their own.
#pragma once

#include <string>
#include <vector>

#include "actors/plan/plan.h"
#include "models/data/prepare.h"
#include "models/generate.h"
#include "runtime/base/status.h"
#include "tests/bench/comm.h"
#include "tests/bench/inspect.h"
#include "tests/bench/matmul.h"
#include "tests/bench/messages.h"
#include "tests/bench/parallel.h"
#include "tests/bench/program_part.h"
#include "tests/bench/train.h"
#include "tools/troupe/launch_job.h"
#include "tools/troupe/running_jobs.h"

namespace troupe::tool {

int all_cores();

struct ConfigArguments {
  std::string config;                  // a TOML file
  std::vector<std::string> overrides;  // --section.key=value
  int processes = 0;                   // plan: of the job; 0: one for each replica
  std::string dashboard;               // train: a port for it; empty: none
};
StatusOr<int> train(const ConfigArguments& arguments);
Status plan(const ConfigArguments& arguments);

StatusOr<int> launch(const LaunchArguments& arguments);

// What starts a config's job elsewhere, printed.
struct ManifestArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string binary = "troupe";       // where the nodes find it
  int ranks = 0;                       // of the job; 0: one for each replica
  int cpus_per_rank = 1;
  int ranks_per_node = 8;              // at most, Slurm
  std::string time, partition;         // Slurm
  std::string image, mount = "/shared", claim = "shared";  // Kubernetes: the folder that all ranks see
};
Status manifest_slurm(const ManifestArguments& arguments);
Status manifest_kubernetes(const ManifestArguments& arguments);

struct GenerateArguments {
  std::string checkpoint, prompt = "The ";
  std::int64_t window = 1024;
  models::SamplingOptions sampling;
};
Status generate(const GenerateArguments& arguments);

Status report(const std::string& output);

struct JobsArguments {
  bool json = false;
};
Status jobs(const JobsArguments& arguments);

struct InspectArguments {
  std::vector<std::string> words;  // [JOB] VIEW [NAME]
  bool json = false;
  std::string top;                 // depth, age, busy, growth
  std::string state, actor;        // of these only
  int rank = -1;                   // of this only
  double patience_s = 1;           // ranks may take to answer
  ContactArguments contact;        // its job is among the words
};
Status inspect(const InspectArguments& arguments);

struct DashboardArguments {
  std::string job;         // how its id begins; empty: the only one that runs
  std::string listen = "127.0.0.1:8265";
  std::string token_file;  // what pages must show
  std::string record, replay;
  double speed = 1;        // of the replay
};
Status dashboard(const DashboardArguments& arguments);

struct TopArguments {
  std::string job;  // how its id begins; empty: the only one
};
Status top(const TopArguments& arguments);

struct ControlArguments {
  std::string what;                // pause, resume, step
  std::vector<std::string> words;  // [JOB] RANK/NAME
  ContactArguments contact;
  bool json = false;
};
Status control(const ControlArguments& arguments);

struct TraceArguments {
  std::string job;
  std::int64_t steps = 3;
  double seconds = 60;             // at most
  double before_s = 0;             // what the rings hold of so long before, too
  std::string out = "trace.json";
};
Status trace(const TraceArguments& arguments);

struct DataPrepareArguments {
  std::vector<std::string> inputs;
  std::string tokenizer = "byte";
  data::PrepareOptions options;
};
Status data_prepare(const DataPrepareArguments& arguments);
Status data_inspect(const std::string& corpus);

Status checkpoint_inspect(const std::string& folder);
Status checkpoint_verify(const std::string& folder);

struct BenchArguments {
  bool json = false;
  int threads = all_cores();
  bench::MatmulShapes shapes;        // roofline
  bench::InspectOptions inspect;
  bench::CommOptions comm;
  bench::MessagesOptions messages;
  bench::ParallelOptions parallel;
  bench::TrainOptions train;
};
Status bench_roofline(const BenchArguments& arguments);
Status bench_kernels(const BenchArguments& arguments);
Status bench_messages(const BenchArguments& arguments);
Status bench_comm(const BenchArguments& arguments);
Status bench_inspect(const BenchArguments& arguments);
Status bench_parallel(const BenchArguments& arguments);
Status bench_train(const BenchArguments& arguments);

// A config file with overrides from the command line, and the plan for this machine.
struct Planned {
  plan::JobConfig job;
  plan::Cluster cluster;
  plan::Plan plan;
};
StatusOr<Planned> load_plan(const ConfigArguments& arguments);

}  // namespace troupe::tool
