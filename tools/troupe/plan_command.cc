#include <CLI/CLI.hpp>
#include <cstdio>

#include "kernels/cpu/cpu.h"
#include "tools/troupe/commands.h"

namespace troupe::tool {

StatusOr<Planned> load_plan(const std::string& config, const std::vector<std::string>& overrides) {
  Planned planned;
  TROUPE_ASSIGN_OR_RETURN(planned.job, plan::load_job_config(config, overrides));
  planned.cluster = plan::Cluster::of_this_machine(planned.job);
  TROUPE_ASSIGN_OR_RETURN(planned.plan, plan::make_plan(planned.job, planned.cluster, kernels::cpu::table()));
  return planned;
}

Run add_plan(CLI::App& app) {
  auto config = std::make_shared<std::string>();
  app.add_option("config", *config, "a TOML file")->required();
  app.allow_extras();
  return [&app, config]() -> Status {
    TROUPE_ASSIGN_OR_RETURN(const Planned planned, load_plan(*config, app.remaining()));
    std::fputs(plan::describe(planned.plan, planned.cluster).c_str(), stdout);
    const Status status = plan::fits(planned.plan, planned.cluster);
    std::printf("\n%s\n", status.ok() ? "fits this machine" : ("does not fit this machine: " + std::string(status.message())).c_str());
    return ok();
  };
}

}  // namespace troupe::tool
