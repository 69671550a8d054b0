#include "tools/troupe/actor_rows.h"

#include <fnmatch.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "tools/troupe/answer_fields.h"
#include "tools/troupe/did_you_mean.h"

namespace troupe::tool {
namespace {

using nlohmann::json;

// An actor's row has its name (and may have `from`: whom it waits for), an edge's the actors at its ends as actor.port.
std::vector<std::string> names_of(const json& row) {
  if (!row.contains("to")) return {word(row, "name")};
  std::vector<std::string> names;
  for (const char* end : {"from", "to"}) {
    const std::string port = word(row, end);
    names.push_back(port.substr(0, port.rfind('.')));
  }
  return names;
}

std::vector<std::string> ids_of(const json& row) {
  std::vector<std::string> ids = names_of(row);
  for (const auto& name : names_of(row)) ids.push_back(absl::StrCat(count(row, "rank"), "/", name));
  return ids;
}

void keep(json& rows, const std::function<bool(const json&)>& wanted) {
  json kept = json::array();
  std::ranges::copy_if(rows, std::back_inserter(kept), wanted);
  rows = std::move(kept);
}

std::string nearest(const json& rows, const std::string& name) {
  std::set<std::string> ids;
  for (const auto& row : rows) {
    const auto of_row = ids_of(row);
    ids.insert(of_row.begin(), of_row.end());
  }
  // Names before ids: so a name that is mistyped is not completed with a rank.
  std::vector<std::string> ordered(ids.begin(), ids.end());
  std::ranges::stable_partition(ordered, [&](const std::string& id) { return absl::StrContains(id, '/') == absl::StrContains(name, '/'); });
  return did_you_mean(name, ordered);
}

}  // namespace

const std::vector<std::string> kStateNames{"idle", "ready", "handling", "running", "waiting", "waiting_for_credit", "waiting_for_input", "waiting_for_event", "waiting_for_collective", "paused", "ended"};
const std::vector<std::string> kTops{"depth", "age", "busy", "growth"};

Status choose_states(json& actors, const std::string& states) {
  std::vector<std::string> wanted;
  for (const auto part : absl::StrSplit(states, ',')) {
    const std::string state = absl::StrReplaceAll(part, {{"-", "_"}, {" ", "_"}});
    if (std::ranges::find(kStateNames, state) == kStateNames.end())
      return absl::InvalidArgumentError(absl::StrCat("inspect: there is no state '", part, "'", did_you_mean(state, kStateNames), "; there are ", absl::StrJoin(kStateNames, ", ")));
    wanted.push_back(state);
  }
  keep(actors, [&](const json& row) {
    const std::string state = word(row, "state");
    return std::ranges::any_of(wanted, [&](const std::string& name) { return state == name || (name == "waiting" && state.starts_with("waiting_for_")); });
  });
  return ok();
}

Status choose_actors(json& rows, const std::string& pattern) {
  const bool is_pattern = pattern.find_first_of("*?[") != std::string::npos;
  const auto chosen = [&](const auto& matches) {
    json some = rows;
    keep(some, [&](const json& row) { return std::ranges::any_of(ids_of(row), matches); });
    return some;
  };
  json found = chosen([&](const std::string& id) { return is_pattern ? fnmatch(pattern.c_str(), id.c_str(), 0) == 0 : id == pattern; });
  if (found.empty() && !is_pattern) found = chosen([&](const std::string& id) { return id.starts_with(pattern); });
  if (found.empty())
    return absl::NotFoundError(absl::StrCat("inspect: no actor is called ", pattern, is_pattern ? "" : nearest(rows, pattern), "; troupe inspect actors lists them"));
  rows = std::move(found);
  return ok();
}

void add_growth(json& actors, const json& earlier, double seconds) {
  std::map<std::string, double> depths;
  for (const auto& row : earlier) depths[ids_of(row).back()] = number(row, "depth");
  for (auto& row : actors) {
    const auto before = depths.find(ids_of(row).back());
    if (!row.contains("growth_per_s") && before != depths.end() && seconds > 0) row["growth_per_s"] = (number(row, "depth") - before->second) / seconds;
  }
}

void sort_actors(json& actors, const std::string& by) {
  const char* key = by == "depth" ? "depth" : by == "age" ? "oldest_s" : by == "growth" ? "growth_per_s" : "handling_s";
  // An actor that nothing waits for has no oldest message.
  const auto weight = [&](const json& row) { return by == "age" && number(row, "depth") == 0 ? -1 : number(row, key); };
  std::stable_sort(actors.begin(), actors.end(), [&](const json& a, const json& b) { return weight(a) > weight(b); });
}

std::string nearest_actor(const json& actors, const std::string& name) { return nearest(actors, name); }

}  // namespace troupe::tool
