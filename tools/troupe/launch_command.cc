#include "absl/strings/str_cat.h"
#include "actors/inspect/runtime_folder.h"
#include "tools/troupe/commands.h"
#include "tools/troupe/launch_remote.h"

namespace troupe::tool {
namespace {

constexpr int kFilesOfAHost = 4;  // open at once: ssh's pipes, its relay's connection to the store

// K=V, and none of those by which the job holds together.
Status check_variables(const std::vector<std::string>& variables) {
  for (const auto& variable : variables) {
    const std::string name = variable.substr(0, variable.find('='));
    if (name.empty() || name.size() == variable.size())
      return absl::InvalidArgumentError(absl::StrCat("--env '", variable, "' must be NAME=VALUE"));
    for (const char* ours : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TROUPE_RANK", "TROUPE_WORLD_SIZE", "TROUPE_LOCAL_RANK",
                             "TROUPE_LOCAL_WORLD_SIZE", "TROUPE_STORE", "TROUPE_RELAY", "TROUPE_SECRET", "TROUPE_CREW"}) {
      if (name == ours) return absl::InvalidArgumentError(absl::StrCat("--env '", variable, "': the launcher sets ", name, " itself; leave it out"));
    }
  }
  return ok();
}

StatusOr<std::vector<HostSlots>> hosts_of(const LaunchArguments& arguments) {
  if (!arguments.hosts.empty() && !arguments.host_file.empty())
    return absl::InvalidArgumentError("--hosts and --hostfile are both given: leave one out");
  if (!arguments.hosts.empty()) return parse_hosts(arguments.hosts, arguments.nproc);
  if (!arguments.host_file.empty()) return parse_host_file(arguments.host_file, arguments.nproc);
  return std::vector<HostSlots>{{"localhost", arguments.nproc}};
}

StatusOr<int> launch_checked(const LaunchArguments& arguments) {
  if (arguments.program.empty())
    return absl::InvalidArgumentError("launch: which program? troupe launch --nproc 2 -- PROGRAM ARGUMENTS");
  if (arguments.ssh.find_first_not_of(' ') == std::string::npos)
    return absl::InvalidArgumentError("--ssh: a command must be given");
  TROUPE_RETURN_IF_ERROR(check_variables(arguments.env));
  TROUPE_ASSIGN_OR_RETURN(const auto hosts, hosts_of(arguments));
  int here = 0, files_there = 0;
  for (const auto& host : hosts) {
    if (is_this_host(host.host)) here += host.slots;
    else files_there += kFilesOfAHost + (arguments.log_dir.empty() ? 0 : host.slots);
  }
  TROUPE_RETURN_IF_ERROR(raise_open_files(LocalCrew::files_needed(here) + files_there));
  return run_job(arguments, hosts);
}

}  // namespace

StatusOr<int> launch(const LaunchArguments& arguments) {
  const StatusOr<int> ended = arguments.agent ? StatusOr<int>(run_agent()) : launch_checked(arguments);
  actors::remove_dead_cards();  // those that were killed have left theirs
  return ended;
}

}  // namespace troupe::tool
