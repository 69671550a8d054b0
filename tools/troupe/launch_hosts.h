// Which ranks run where, from --nproc, --hosts and --hostfile. Pure but for reading the file.
//
// A host is a name, an address or USER@NAME; an IPv6 address with a number after it stands in brackets, [::1]:2. A host that is named
// again adds its ranks to the first time, as with Open MPI: a:2,b,a:2 is a:4,b. The names of this machine are one host.
// Threads: any. Errors: kInvalidArgument, naming the host, or every bad line of the file; kNotFound if there is no such file.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace troupe::tool {

struct HostSlots {
  std::string host;
  int slots = 1;  // ranks there
  friend bool operator==(const HostSlots&, const HostSlots&) = default;
};

// "a:4,b:4"; a host without a number gets `nproc` ranks.
StatusOr<std::vector<HostSlots>> parse_hosts(const std::string& text, int nproc);
// A host a line: "a", "a:4", "a 4" or "a slots=4", and "max_slots=8", which refuses more and bounds `nproc`. # begins a comment.
StatusOr<std::vector<HostSlots>> parse_host_file(const std::string& path, int nproc);

// This machine: no ssh.
bool is_this_host(const std::string& host);

}  // namespace troupe::tool
