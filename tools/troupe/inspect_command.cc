#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "actors/inspect/http.h"
#include "tools/troupe/commands.h"
#include "tools/troupe/did_you_mean.h"
#include "tools/troupe/inspect_tables.h"
#include "tools/troupe/running_jobs.h"

namespace troupe::tool {
namespace {

using nlohmann::json;

constexpr auto kBesidePatience = std::chrono::seconds(3);  // for the way there and back
const std::vector<std::string> kViews{"job", "actors", "mailbox", "edges", "waits", "collectives", "peek", "compute", "config"};

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

}  // namespace

Status inspect(const InspectArguments& arguments) {
  TROUPE_ASSIGN_OR_RETURN(const Wanted what, parsed(arguments.words));
  if (!arguments.top.empty() && what.view != "actors") return absl::InvalidArgumentError("inspect: --top sorts actors only");
  if (!what.job.empty() && !arguments.contact.connect.empty()) return absl::InvalidArgumentError(absl::StrCat("inspect: --connect says which job; leave out ", what.job));
  ContactArguments how = arguments.contact;
  how.job = what.job;
  TROUPE_ASSIGN_OR_RETURN(const actors::HttpPlace place, contact(how));
  std::string target = absl::StrCat("/v1/", what.view, "?patience_s=", arguments.patience_s);
  if (arguments.rank >= 0) absl::StrAppend(&target, "&ranks=", arguments.rank);
  if (!what.actor.empty()) absl::StrAppend(&target, "&actor=", actors::in_query(what.actor));
  if (!arguments.json && what.actor.empty()) absl::StrAppend(&target, "&brief=1");
  const auto patience = kBesidePatience + std::chrono::nanoseconds(static_cast<std::int64_t>(arguments.patience_s * 1e9));
  TROUPE_ASSIGN_OR_RETURN(const std::string text, actors::http_get(place, target, patience));
  auto answer = json::parse(text, nullptr, false);
  if (!answer.is_object()) return absl::DataLossError("the job answered no JSON: does it run another version?");
  if (!arguments.top.empty()) sort_actors(answer["actors"], arguments.top);
  std::printf("%s", (arguments.json ? answer.dump(2, ' ', false, json::error_handler_t::replace) + "\n" : inspect_text(what.view, answer)).c_str());
  return ok();
}

}  // namespace troupe::tool
