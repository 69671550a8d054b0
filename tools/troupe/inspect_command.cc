#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "actors/inspect/http.h"
#include "tools/troupe/actor_lines.h"
#include "tools/troupe/actor_rows.h"
#include "tools/troupe/commands.h"
#include "tools/troupe/did_you_mean.h"
#include "tools/troupe/inspect_tables.h"
#include "tools/troupe/running_jobs.h"

namespace troupe::tool {
namespace {

using nlohmann::json;

constexpr auto kBesidePatience = std::chrono::seconds(3);  // for the way there and back
constexpr auto kBetweenLooks = std::chrono::milliseconds(1100);  // ranks count from the last look that is a second ago
const std::vector<std::string> kViews{"job", "actors", "mailbox", "peek", "edges", "streams", "waits", "collectives", "compute", "dead", "config"};

struct Wanted {
  std::string job, view, actor;
};

bool is_view(const std::string& word) { return std::ranges::find(kViews, word) != kViews.end(); }

// [JOB] VIEW [NAME]
StatusOr<Wanted> parsed(std::vector<std::string> words) {
  Wanted wanted;
  if (words.size() > 1 && !is_view(words[0])) {
    wanted.job = words[0];
    words.erase(words.begin());
  }
  if (!is_view(words[0]))
    return absl::InvalidArgumentError(absl::StrCat("inspect: there is no view ", words[0], did_you_mean(words[0], kViews), "; there are ", absl::StrJoin(kViews, ", ")));
  wanted.view = words[0];
  const bool is_of_one = wanted.view == "mailbox" || wanted.view == "peek";
  if (is_of_one && words.size() == 1)
    return absl::InvalidArgumentError(absl::StrCat("inspect: whose ", wanted.view, "? Say RANK/NAME, as in ", wanted.view, " 0/stage-0"));
  if (words.size() > (is_of_one ? 2 : 1)) return absl::InvalidArgumentError(absl::StrCat("inspect: one word too much: ", words.back(), "; see troupe inspect --help"));
  if (is_of_one) wanted.actor = words[1];
  return wanted;
}

// What is asked of a job, and how long that may take.
class Asking {
 public:
  Asking(const InspectArguments& arguments, actors::HttpPlace place) : arguments_(arguments), place_(std::move(place)) {}
  StatusOr<json> operator()(const Wanted& what, bool brief) const {
    TROUPE_ASSIGN_OR_RETURN(const std::string answered, text(what, brief));
    auto answer = json::parse(answered, nullptr, false);
    if (!answer.is_object()) return absl::DataLossError("the job answered no JSON: does it run another version?");
    return answer;
  }
  StatusOr<std::string> text(const Wanted& what, bool brief) const {
    // Dead letters are of all that live and of all that have ended.
    std::string target = absl::StrCat("/v1/", what.view == "dead" ? "ranks" : what.view, "?patience_s=", arguments_.patience_s);
    if (arguments_.rank >= 0) absl::StrAppend(&target, "&ranks=", arguments_.rank);
    if (!what.actor.empty()) absl::StrAppend(&target, "&actor=", actors::in_query(what.actor));
    if (brief) absl::StrAppend(&target, "&brief=1");
    const auto patience = kBesidePatience + std::chrono::nanoseconds(static_cast<std::int64_t>(arguments_.patience_s * 1e9));
    return actors::http_get(place_, target, patience);
  }

 private:
  const InspectArguments& arguments_;
  const actors::HttpPlace place_;
};

// Options for a view that has nothing of the kind.
Status suits(const InspectArguments& arguments, const std::string& view) {
  if (!arguments.top.empty() && view != "actors") return absl::InvalidArgumentError("inspect: --top sorts actors only");
  if (!arguments.state.empty() && view != "actors") return absl::InvalidArgumentError("inspect: --state chooses actors only");
  if (!arguments.actor.empty() && view != "actors" && view != "edges") return absl::InvalidArgumentError("inspect: --actor chooses actors or edges only");
  return ok();
}

// A mailbox grows between two looks: the first may be the first ever.
Status look_again(json& answer, const Asking& asking, const Wanted& what, bool brief) {
  const auto first_at = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(kBetweenLooks);
  TROUPE_ASSIGN_OR_RETURN(json second, asking(what, brief));
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - first_at;
  if (second["actors"].is_array()) add_growth(second["actors"], answer["actors"], passed.count());
  answer = std::move(second);
  answer["sorted_by"] = "growth";
  return ok();
}

Status choose(json& answer, const InspectArguments& arguments, const std::string& view) {
  json& rows = answer[view];
  if (!rows.is_array()) return ok();
  if (!arguments.actor.empty()) TROUPE_RETURN_IF_ERROR(choose_actors(rows, arguments.actor));
  if (!arguments.state.empty()) TROUPE_RETURN_IF_ERROR(choose_states(rows, arguments.state));
  if (!arguments.top.empty()) sort_actors(rows, arguments.top);
  return ok();
}

}  // namespace

Status inspect(const InspectArguments& arguments) {
  TROUPE_ASSIGN_OR_RETURN(const Wanted what, parsed(arguments.words));
  TROUPE_RETURN_IF_ERROR(suits(arguments, what.view));
  if (!what.job.empty() && !arguments.contact.connect.empty()) return absl::InvalidArgumentError(absl::StrCat("inspect: --connect says which job; leave out ", what.job));
  ContactArguments how = arguments.contact;
  how.job = what.job;
  TROUPE_ASSIGN_OR_RETURN(actors::HttpPlace place, contact(how));
  const Asking asking(arguments, std::move(place));
  const bool brief = !arguments.json && what.actor.empty() && what.view != "dead";
  if (what.view == "actors" && brief && arguments.actor.empty() && arguments.state.empty() && arguments.top.empty()) {  // all, as they come
    TROUPE_ASSIGN_OR_RETURN(const std::string text, asking.text(what, brief));
    TROUPE_ASSIGN_OR_RETURN(const ActorLines lines, actor_lines(text));
    std::fputs(actors_text(lines).c_str(), stdout);
    return ok();
  }
  auto answer = asking(what, brief);
  if (absl::IsNotFound(answer.status()) && !what.actor.empty()) {
    const auto all = asking({.view = "actors"}, true);
    return absl::NotFoundError(absl::StrCat(answer.status().message(), all.ok() && all->contains("actors") ? nearest_actor((*all)["actors"], what.actor) : ""));
  }
  TROUPE_RETURN_IF_ERROR(answer.status());
  if (arguments.top == "growth") TROUPE_RETURN_IF_ERROR(look_again(*answer, asking, what, brief));
  if (what.view == "actors" || what.view == "edges") TROUPE_RETURN_IF_ERROR(choose(*answer, arguments, what.view));
  std::printf("%s", (arguments.json ? answer->dump(2, ' ', false, json::error_handler_t::replace) + "\n" : inspect_text(what.view, *answer)).c_str());
  return ok();
}

}  // namespace troupe::tool
