#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tools/troupe/commands.h"
#include "tools/troupe/running_jobs.h"
#include "tools/troupe/table.h"

namespace troupe::tool {

Status jobs(const JobsArguments& arguments) {
  TROUPE_ASSIGN_OR_RETURN(const auto running, running_jobs());
  if (arguments.json) {
    auto rows = nlohmann::json::array();
    for (const auto& job : running) {
      const auto& card = job.card();
      rows.push_back({{"job", card.job}, {"program", card.program}, {"world", card.world}, {"here", job.here.size()}, {"rank", card.rank},
                      {"pid", card.pid}, {"host", card.host}, {"output", card.output}, {"started_unix_s", card.started_unix_s}});
    }
    std::printf("%s\n", nlohmann::json{{"schema", 1}, {"jobs", rows}}.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    return ok();
  }
  if (running.empty()) {
    std::printf("no job of this user runs on this machine\n");
    return ok();
  }
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::vector<std::vector<std::string>> rows;
  for (const auto& job : running) {
    const auto& card = job.card();
    rows.push_back({card.job, absl::StrCat(card.world), absl::StrCat(job.here.size()), absl::StrCat(card.pid), duration(now - card.started_unix_s),
                    card.output.empty() ? "-" : card.output, card.program});
  }
  std::printf("%s", table({{"JOB"}, {"RANKS", true}, {"HERE", true}, {"PID", true}, {"SINCE", true}, {"OUTPUT"}, {"PROGRAM"}}, rows).c_str());
  return ok();
}

}  // namespace troupe::tool
