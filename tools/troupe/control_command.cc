#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "actors/inspect/http.h"
#include "tools/troupe/commands.h"
#include "tools/troupe/running_jobs.h"

namespace troupe::tool {
namespace {

using nlohmann::json;

constexpr auto kToldWithin = std::chrono::seconds(5);  // the ranks have one

}  // namespace

Status control(const ControlArguments& arguments) {
  const auto& words = arguments.words;
  if (words.size() > 2) return absl::InvalidArgumentError(absl::StrCat(arguments.what, ": one word too much: ", words.back(), "; say [JOB] RANK/NAME"));
  if (words.size() == 2 && !arguments.contact.connect.empty())
    return absl::InvalidArgumentError(absl::StrCat(arguments.what, ": --connect says which job; leave out ", words.front()));
  ContactArguments how = arguments.contact;
  how.job = words.size() == 2 ? words.front() : "";
  TROUPE_ASSIGN_OR_RETURN(const actors::HttpPlace place, contact_with_token(how));
  TROUPE_ASSIGN_OR_RETURN(const std::string text,
                          actors::http_post(place, absl::StrCat("/v1/", arguments.what, "?actor=", actors::in_query(words.back())), kToldWithin));
  const auto answer = json::parse(text, nullptr, false);
  if (!answer.is_object()) return absl::DataLossError("the job answered no JSON: does it run another version?");
  if (arguments.json) {
    std::printf("%s\n", answer.dump(2, ' ', false, json::error_handler_t::replace).c_str());
  } else {
    std::printf("%d/%s %s\n", answer.value("rank", -1), answer.value("actor", json::object()).value("name", "").c_str(), answer.value("text", "").c_str());
  }
  return ok();
}

}  // namespace troupe::tool
