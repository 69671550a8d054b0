// What the launcher tells each rank: TROUPE_* (comm/join/environment.h reads them) and the same in torchrun's words for other
// programs.
// Threads: the launcher's; resolves names, so it may wait for DNS. Owns: nothing; a free port is one that was free when it was asked for.
// Errors: none: an address that cannot be found out is empty, and the host's agent finds the launcher by its ssh connection.
#pragma once

#include <string>
#include <vector>

#include "tools/troupe/launch_crew.h"
#include "tools/troupe/launch_hosts.h"

namespace troupe::tool {

struct JobEnvironment {
  std::string store_host_here = "127.0.0.1";  // for ranks of this machine
  std::string store_host_there;                 // for others; "launcher": their agent fills it in
  int store_port = 0;
  std::string secret;
  std::string master_host = "127.0.0.1";  // of rank 0; MASTER_PORT is a port for the user's program, not the store's
  int master_port = 0;
  std::vector<std::string> more;  // --env: wins
};

// `job` with the hosts that its ranks need to know. `address`: of this machine, as others reach it; empty: found out.
JobEnvironment environment_of(const std::vector<HostSlots>& hosts, JobEnvironment job, const std::string& address);

// By host, the starts of its ranks.
std::vector<std::vector<RankStart>> starts_of(const std::vector<HostSlots>& hosts, const JobEnvironment& environment);

// The address of this machine from which a host is reached; empty if that cannot be found out.
std::string address_towards(const std::string& host);
int free_port();

}  // namespace troupe::tool
