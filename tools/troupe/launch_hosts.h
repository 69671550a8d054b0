// Which ranks run where, from --nproc, --hosts and --hostfile. Pure but for reading the file.
// Errors: kInvalidArgument, naming the host or the file's line.
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
// A host a line, as "a:4", "a 4" or "a slots=4"; # begins a comment.
StatusOr<std::vector<HostSlots>> parse_host_file(const std::string& path, int nproc);

// This machine: no ssh.
bool is_this_host(const std::string& host);

}  // namespace troupe::tool
