// The dashboard that a training job shows of itself (`train --dashboard`).
// Threads: one. Owns: feed and server. Errors: none: what hinders it is a warning in the log, and the job trains on.
#pragma once

#include <memory>
#include <string>

#include "tools/troupe/dashboard_server.h"

namespace troupe::tool {

class OwnDashboard {
 public:
  // After the job's door is open. `port`: as on the command line; empty: none is wanted.
  OwnDashboard(const std::string& job, const std::string& port);
  // Pages that are open hear how it ended.
  void end(const Status& how);

 private:
  Status open(const std::string& job, const std::string& port);
  std::unique_ptr<DashboardFeed> feed_;
  std::unique_ptr<DashboardServer> server_;
};

}  // namespace troupe::tool
