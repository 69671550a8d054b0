#include "tools/troupe/own_dashboard.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/log.h"

namespace troupe::tool {

OwnDashboard::OwnDashboard(const std::string& job, const std::string& port) {
  if (port.empty()) return;
  if (const Status status = open(job, port); !status.ok()) log_warning(absl::StrCat("there is no page for this job: ", status.message()));
}

Status OwnDashboard::open(const std::string& job, const std::string& port) {
  int number = kDashboardPort;
  if (!absl::SimpleAtoi(port, &number)) return absl::InvalidArgumentError(absl::StrCat("--dashboard=", port, " is no port"));
  TROUPE_ASSIGN_OR_RETURN(RunningJob running, running_job(job));
  TROUPE_ASSIGN_OR_RETURN(feed_, DashboardFeed::start(std::make_unique<JobFrames>(std::move(running), job), ""));
  TROUPE_ASSIGN_OR_RETURN(server_, DashboardServer::open({.host = "127.0.0.1", .port = number}, *feed_));
  log_info(absl::StrCat("dashboard: ", server_->address()));
  return ok();
}

void OwnDashboard::end(const Status& how) {
  if (server_ == nullptr) return;
  feed_->end(how.ok() ? "" : std::string(how.message()));
  server_.reset();
  feed_.reset();
}

}  // namespace troupe::tool
