#include "tools/troupe/running_jobs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "actors/inspect/http.h"

namespace troupe::tool {
namespace {

using namespace std::chrono_literals;

// A process that is stopped takes the connection and says nothing.
struct Round {
  std::chrono::milliseconds patience;
  std::size_t processes;  // at most
};
constexpr Round kRounds[] = {{250ms, 8}, {1000ms, 4}};

std::string listed(const std::vector<RunningJob>& jobs) {
  std::string text;
  for (const auto& job : jobs) absl::StrAppend(&text, "\n  ", job.card().job, "  ", job.card().program);
  return text;
}

}  // namespace

StatusOr<std::vector<RunningJob>> running_jobs() {
  TROUPE_ASSIGN_OR_RETURN(const std::string folder, actors::open_runtime_folder());
  std::vector<RunningJob> jobs;
  for (auto& card : actors::running_cards(folder)) {
    if (jobs.empty() || jobs.back().card().job != card.job) jobs.emplace_back();
    jobs.back().here.push_back(std::move(card));
  }
  return jobs;
}

StatusOr<RunningJob> running_job(const std::string& id) {
  TROUPE_ASSIGN_OR_RETURN(const auto jobs, running_jobs());
  std::vector<RunningJob> meant;
  std::ranges::copy_if(jobs, std::back_inserter(meant), [&](const RunningJob& job) { return job.card().job.starts_with(id); });
  if (meant.size() == 1) return meant.front();
  if (jobs.empty()) return absl::NotFoundError("no job of this user runs on this machine");
  if (meant.empty()) return absl::NotFoundError(absl::StrCat("no running job is called ", id, ". There are:", listed(jobs)));
  return absl::InvalidArgumentError(absl::StrCat("several jobs run: say which, as in troupe inspect ", meant.front().card().job, " actors. There are:", listed(meant)));
}

namespace {

StatusOr<const actors::JobCard*> able_to_answer(const RunningJob& job) {
  for (const auto& round : kRounds) {
    for (std::size_t i = 0; i < std::min(job.here.size(), round.processes); ++i) {
      if (actors::http_get({.socket = job.here[i].socket}, "/v1/ping", round.patience).ok()) return &job.here[i];
    }
  }
  return absl::UnavailableError(absl::StrCat("no process of job ", job.card().job, " answers on this machine; is process ", job.card().pid, " stopped?"));
}

}  // namespace

StatusOr<std::string> ask(const RunningJob& job, const std::string& target, std::chrono::nanoseconds patience) {
  TROUPE_ASSIGN_OR_RETURN(const auto* card, able_to_answer(job));
  return actors::http_get({.socket = card->socket}, target, patience);
}

StatusOr<actors::HttpPlace> contact(const ContactArguments& arguments) {
  actors::HttpPlace place;
  if (!arguments.connect.empty()) {
    TROUPE_ASSIGN_OR_RETURN(place, actors::http_place(arguments.connect, 1));
  } else {
    TROUPE_ASSIGN_OR_RETURN(const RunningJob job, running_job(arguments.job));
    TROUPE_ASSIGN_OR_RETURN(const auto* card, able_to_answer(job));
    place.socket = card->socket;
  }
  if (!arguments.token_file.empty()) {
    TROUPE_ASSIGN_OR_RETURN(place.token, actors::read_token(arguments.token_file));
  }
  return place;
}

StatusOr<actors::HttpPlace> contact_with_token(const ContactArguments& arguments) {
  TROUPE_ASSIGN_OR_RETURN(actors::HttpPlace place, contact(arguments));
  if (!place.token.empty()) return place;
  if (place.socket.empty()) {
    return absl::InvalidArgumentError("whoever tells a job at an address what to do shows its token: --token-file FILE, a copy of JOB.RANK.token in the runtime "
                                      "folder where the job runs");
  }
  actors::JobCard card;
  card.socket = place.socket;
  TROUPE_ASSIGN_OR_RETURN(place.token, actors::read_token(actors::token_file(card)));
  return place;
}

}  // namespace troupe::tool
