#include "tools/top/rates.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tools/troupe/answer_fields.h"

namespace troupe::top {
namespace {

using nlohmann::json;
using tool::number;
using tool::word;

std::optional<double> field(const json& row, const char* key) {
  return row.contains(key) && row[key].is_number() ? std::optional(row[key].get<double>()) : std::nullopt;
}

template <class Map>
auto found(const Map& map, const std::string& id) {
  const auto at = map.find(id);
  return at == map.end() ? typename Map::mapped_type{} : at->second;
}

}  // namespace

std::string edge_id(int rank, const json& edge) {
  const std::string name = word(edge, "name");
  return absl::StrCat(rank, "/", name.empty() ? absl::StrCat(word(edge, "from"), ">", word(edge, "to")) : name);
}

void Rates::look(const json& frame) {
  std::map<std::string, Counts> now;
  std::map<std::string, ActorRates> actors;
  std::map<std::string, EdgeRates> edges;
  const auto since_last = [&](const std::string& key, const Counts& counts) -> std::optional<Counts> {
    now[key] = counts;
    const auto before = last_.find(key);
    if (before == last_.end() || counts.at_s <= before->second.at_s || counts.done < before->second.done) return std::nullopt;
    return Counts{.at_s = counts.at_s - before->second.at_s, .done = counts.done - before->second.done, .busy_s = counts.busy_s - before->second.busy_s,
                  .depth = counts.depth - before->second.depth, .bytes = counts.bytes - before->second.bytes};
  };
  for (const auto& report : tool::rows_of(frame, "ranks")) {
    const int rank = static_cast<int>(number(report, "rank"));
    const double at_s = field(report, "probe_s").value_or(number(report, "at_unix_s"));
    for (const auto& row : tool::rows_of(report, "actors")) {
      const std::string id = absl::StrCat(rank, "/", word(row, "name"));
      auto& rates = actors[id];
      if (const auto past = since_last("a" + id, {at_s, number(row, "handled"), number(row, "handling_s"), number(row, "depth"), 0}))
        rates = {past->done / past->at_s, past->busy_s / past->at_s, past->depth / past->at_s};
      if (const auto known = field(row, "growth_per_s")) rates.growth_per_s = known;
    }
    for (const auto& row : tool::rows_of(report, "edges")) {
      const std::string id = edge_id(rank, row);
      auto& rates = edges[id];
      if (const auto past = since_last("e" + id, {at_s, number(row, "sent"), 0, 0, number(row, "bytes")})) {
        rates.sent_per_s = past->done / past->at_s;
        if (row.contains("bytes")) rates.bytes_per_s = past->bytes / past->at_s;
      }
    }
  }
  last_ = std::move(now);
  actors_ = std::move(actors);
  edges_ = std::move(edges);
}

ActorRates Rates::actor(const std::string& id) const { return found(actors_, id); }
EdgeRates Rates::edge(const std::string& id) const { return found(edges_, id); }

}  // namespace troupe::top
