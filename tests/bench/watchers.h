// Who looks into a job while it is measured: a process that asks for all ranks' reports once a second, and a dashboard with a page that is open.
// Threads: one. Owns: these processes. Errors: kUnavailable: the job is not found, the dashboard does not open.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/status.h"
#include "tests/bench/child_program.h"
#include "tests/bench/forked.h"

namespace troupe::bench {

class Watchers {
 public:
  static StatusOr<std::unique_ptr<Watchers>> start(const std::string& program, const std::string& job);
  ~Watchers();

  struct Looks {
    std::int64_t asked = 0;   // reports of all ranks that came
    std::int64_t events = 0;  // of the dashboard's stream
  };
  StatusOr<Looks> looks();

 private:
  Watchers() = default;
  std::unique_ptr<ChildProgram> dashboard_;
  ForkedRanks asker_, page_;
};

}  // namespace troupe::bench
