#include <cstdio>

#include "kernels/cpu/cpu.h"
#include "tools/troupe/commands.h"

namespace troupe::tool {

StatusOr<Planned> load_plan(const ConfigArguments& arguments) {
  Planned planned;
  TROUPE_ASSIGN_OR_RETURN(planned.job, plan::load_job_config(arguments.config, arguments.overrides));
  planned.cluster = plan::Cluster::of_this_machine(planned.job);
  planned.cluster.processes = arguments.processes;
  TROUPE_ASSIGN_OR_RETURN(planned.plan, plan::make_plan(planned.job, planned.cluster, kernels::cpu::table()));
  return planned;
}

Status plan(const ConfigArguments& arguments) {
  TROUPE_ASSIGN_OR_RETURN(const Planned planned, load_plan(arguments));
  std::fputs(plan::describe(planned.plan, planned.cluster).c_str(), stdout);
  const Status status = plan::fits(planned.plan, planned.cluster);
  std::printf("\n%s\n", status.ok() ? "fits this machine" : ("does not fit this machine: " + std::string(status.message())).c_str());
  return status;  // as `train` ends with it
}

}  // namespace troupe::tool
