// The commands of the one binary. Each declares its options on its own sub-command and gives what to run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "actors/plan/plan.h"
#include "runtime/base/status.h"

namespace CLI {
class App;
}

namespace troupe::tool {

// What the chosen command does; its Status becomes the exit code: 0 if ok, 2 for bad input, 1 for the rest.
using Run = std::function<Status()>;

Run add_train(CLI::App& app);
Run add_plan(CLI::App& app);
Run add_generate(CLI::App& app);
Run add_report(CLI::App& app);
Run add_data_prepare(CLI::App& app);
Run add_data_inspect(CLI::App& app);
Run add_checkpoint_inspect(CLI::App& app);
Run add_checkpoint_verify(CLI::App& app);
Run add_bench_roofline(CLI::App& app);
Run add_bench_kernels(CLI::App& app);
Run add_bench_messages(CLI::App& app);
Run add_bench_train(CLI::App& app);

// A config file with overrides from the command line, and the plan for this machine.
struct Planned {
  plan::JobConfig job;
  plan::Cluster cluster;
  plan::Plan plan;
};
StatusOr<Planned> load_plan(const std::string& config, const std::vector<std::string>& overrides);

}  // namespace troupe::tool
