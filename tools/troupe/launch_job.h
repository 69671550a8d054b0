// One launched job: starts its ranks, shows what they write, passes signals on, and sees that all end when one fails.
//
// The job's exit code is the first failing rank's (128 + n for signal n). After a failure the others get SIGTERM and 5 seconds,
// then SIGKILL. Who failed first is what the store heard first, if one of the ranks said or was found missing there; else who was
// seen to end first. A rank that leaves the store without a goodbye fails the job even if it exits with 0.
//
// Threads: one, which polls; the store has its own. Owns: everybody it started. Errors: before anything was started, by Status.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/troupe/launch_crew.h"
#include "tools/troupe/launch_hosts.h"

namespace troupe::tool {

struct LaunchArguments {
  int nproc = 1;
  std::string hosts, host_file;
  std::string ssh = "ssh -T -x -o BatchMode=yes -o ConnectTimeout=10";
  std::string address;  // of this machine, as the hosts reach it; empty: found out
  std::vector<std::string> env;
  std::string log_dir;
  double timeout_s = 0;  // 0: none
  bool agent = false;
  std::vector<std::string> program;
};

// The exit code.
StatusOr<int> run_job(const LaunchArguments& arguments, const std::vector<HostSlots>& hosts);

}  // namespace troupe::tool
