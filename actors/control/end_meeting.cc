#include "actors/control/end_meeting.h"

#include <future>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace troupe::actors {
namespace {

constexpr comm::OperationId kFirst{-1}, kSecond{-2};

std::string not_here(comm::CollectiveEngine& engine) {
  auto told = std::make_shared<std::promise<std::string>>();
  auto missing = told->get_future();
  engine.report([told](std::vector<comm::CollectiveEngine::OpenOperation> open) {
    std::string ranks;
    for (const auto& operation : open) {
      ranks = absl::StrJoin(operation.missing, ", ", [](std::string* out, Rank rank) { absl::StrAppend(out, "rank ", rank.value); });
    }
    told->set_value(ranks);
  });
  return missing.get();
}

Status meet(comm::CollectiveEngine& engine, comm::GroupId everybody, comm::OperationId meeting, std::chrono::nanoseconds within) {
  auto met = std::make_shared<std::promise<Status>>();
  auto result = met->get_future();
  engine.start(everybody, meeting, {.what = "end of the job"}, [met](Status status) { met->set_value(std::move(status)); });
  if (result.wait_for(within) == std::future_status::ready) return result.get();
  const std::string missing = not_here(engine);
  if (result.wait_for(std::chrono::seconds(0)) == std::future_status::ready) return result.get();  // the last one came meanwhile
  return absl::DeadlineExceededError(
      absl::StrCat("the job has ended here, but not at ", missing, " within ", std::chrono::duration<double>(within).count(), " s"));
}

}  // namespace

Status meet_at_the_end(comm::CollectiveEngine& engine, comm::GroupId everybody, std::chrono::nanoseconds within) {
  TROUPE_RETURN_IF_ERROR(meet(engine, everybody, kFirst, within));
  meet(engine, everybody, kSecond, within).IgnoreError();
  return ok();
}

void meet_at_the_end(comm::CollectiveEngine& engine, comm::GroupId everybody, comm::Completion met) {
  engine.start(everybody, kFirst, {.what = "end of the job"}, [&engine, everybody, met = std::move(met)](Status status) mutable {
    if (!status.ok()) return met(std::move(status));
    engine.start(everybody, kSecond, {.what = "end of the job"}, [met = std::move(met)](const Status&) mutable { met(ok()); });
  });
}

}  // namespace troupe::actors
