// Two network namespaces of this machine, joined by a pair of virtual devices whose rate can be limited: two hosts and a link.
//
// Threads: one. Owns: both namespaces and the devices; names begin with "bench" and this process's id. A guard removes them, also when this
// process ends otherwise; if that was killed too, the next process that makes some does.
// Errors: kUnavailable where it is not possible (no root, no ip, no tc), with the command that failed and what it said.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "runtime/base/status.h"
#include "tests/bench/outliving_guard.h"

namespace troupe::bench {

class LinkedNamespaces {
 public:
  static StatusOr<std::unique_ptr<LinkedNamespaces>> create();
  LinkedNamespaces(const LinkedNamespaces&) = delete;
  LinkedNamespaces& operator=(const LinkedNamespaces&) = delete;

  const std::string& name(int end) const { return names_[static_cast<std::size_t>(end)]; }
  // In both directions, each for itself; 0: without a limit.
  Status limit(double bytes_per_s);

 private:
  LinkedNamespaces();
  Status set_up();
  std::array<std::string, 2> names_, devices_;
  bool limited_ = false;
  std::optional<OutlivingGuard> guard_;
};

}  // namespace troupe::bench
