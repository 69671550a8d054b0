#include "runtime/trace/json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/trace/report_fields.h"
#include "runtime/trace/trace_fields.h"
#include "runtime/trace/waits.h"

namespace troupe::trace {
namespace {

using Json = nlohmann::ordered_json;
using Parsed = nlohmann::json;  // which finds a key among very many in little time

constexpr double kSecondsMost = 4e9;  // fits nanoseconds in 64 bits twice

double in_seconds(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Writer and Reader go through the fields of a row as report_fields.h lists them.

// Writes text at once: a tree of values between takes seven times as long, 0.4 s for 10,000 actors.
class Writer {
 public:
  Writer(std::string& out, bool brief) : out_(out), brief_(brief) {}

  template <class Row>
  void object(const Row& row) {
    out_ += '{';
    fields(*this, row);
    out_ += '}';
  }
  template <class Row>
  void ranked_rows(int rank, const std::vector<Row>& rows) {
    list(rows, [this, rank](const Row& row) {
      out_ += '{';
      value("rank", rank);
      fields(*this, row);
      out_ += '}';
    });
  }
  template <class T>
  void value(const char* key, const T& value) {
    begin(key);
    write(value);
  }
  void derived(const char* key, std::int64_t count) { value(key, count); }
  void constant(const char* key, int number) { value(key, number); }
  void seconds(const char* key, std::int64_t ns) { value(key, in_seconds(ns)); }
  void finite(const char* key, const std::optional<double>& value) {
    begin(key);
    if (value && std::isfinite(*value)) write(*value);
    else out_ += "null";
  }
  template <class Row>
  void row(const char* key, const Row& row) {
    begin(key);
    object(row);
  }
  template <class Row>
  void optional_row(const char* key, const std::optional<Row>& value) {
    if (value) row(key, *value);
  }
  template <class Row>
  void rows(const char* key, const std::vector<Row>& rows) {
    begin(key);
    list(rows, [this](const Row& row) { object(row); });
  }
  template <class Row>
  void long_row(const char* key, const Row& value) {
    if (!brief_) row(key, value);
  }
  template <class Row>
  void long_rows(const char* key, const std::vector<Row>& list) {
    if (!brief_) rows(key, list);
  }

 private:
  void begin(const char* key) { absl::StrAppend(&out_, out_.back() == '{' ? "\"" : ",\"", key, "\":"); }
  void write(const std::string& text) {
    const bool is_plain = std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
    if (is_plain) {
      absl::StrAppend(&out_, "\"", text, "\"");
    } else {
      out_ += dump(Json(text));
    }
  }
  void write(bool value) { out_ += value ? "true" : "false"; }
  template <std::integral Int>
  void write(Int value) {
    absl::StrAppend(&out_, value);
  }
  void write(double value) {
    std::array<char, 32> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), std::isfinite(value) ? value : 0.0).ptr;
    out_.append(digits.data(), end);
  }
  void write(State value) { write(std::string(trace::key(value))); }
  void write(DeadReason value) { write(std::string(trace::key(value))); }
  template <class T>
  void write(const std::vector<T>& values) {
    list(values, [this](const T& value) { write(value); });
  }
  template <class T, class WriteOne>
  void list(const std::vector<T>& values, const WriteOne& write_one) {
    out_ += '[';
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i > 0) out_ += ',';
      write_one(values[i]);
    }
    out_ += ']';
  }

  std::string& out_;
  const bool brief_;
};

// Of a report's fields the one list that is asked for.
class ListWriter {
 public:
  ListWriter(Writer& out, std::string_view list, int rank) : out_(out), list_(list), rank_(rank) {}

  template <class T>
  void value(const char*, const T&) {}
  void constant(const char*, int) {}
  void seconds(const char*, std::int64_t) {}
  template <class Row>
  void optional_row(const char*, const std::optional<Row>&) {}
  template <class Row>
  void rows(const char* key, const std::vector<Row>& rows) {
    if (list_ == key) out_.ranked_rows(rank_, rows);
  }

 private:
  Writer& out_;
  const std::string_view list_;
  const int rank_;
};

// Keeps the first error; from there on it changes nothing.
class Reader {
 public:
  Reader(const Parsed& json, Status& status) : json_(json), status_(status) {}

  void value(const char* key, std::string& value) {
    if (const Parsed* at = find(key)) read(key, *at, value);
  }
  void value(const char* key, bool& value) {
    const Parsed* at = find(key);
    if (at == nullptr) return;
    if (!at->is_boolean()) return refuse(key, *at, "true or false");
    value = at->get<bool>();
  }
  void value(const char* key, double& value) {
    if (const Parsed* at = find(key)) read(key, *at, value);
  }
  void finite(const char* key, std::optional<double>& value) {
    const Parsed* at = find(key);
    value.reset();
    if (at != nullptr && !at->is_null()) read(key, *at, value.emplace());
  }
  template <std::integral Int>
  void value(const char* key, Int& value) {
    if (const Parsed* at = find(key)) read(key, *at, value);
  }
  template <class T>
  void value(const char* key, std::vector<T>& value) {
    const Parsed* list = find_list(key);
    if (list == nullptr) return;
    value.resize(list->size());
    for (std::size_t i = 0; i < value.size(); ++i) read(key, (*list)[i], value[i]);
  }
  void value(const char* key, State& value) { one_of(key, value, State::kEnded); }
  void value(const char* key, DeadReason& value) { one_of(key, value, DeadReason::kTimerDropped); }
  void derived(const char*, std::int64_t) {}
  void seconds(const char* key, std::int64_t& ns) {
    const Parsed* at = find(key);
    if (at == nullptr) return;
    const double seconds = at->is_number() ? at->get<double>() : kSecondsMost;
    if (!(std::abs(seconds) < kSecondsMost)) return refuse(key, *at, "a time in seconds");
    ns = std::llround(seconds * 1e9);
  }
  template <class Row>
  void row(const char* key, Row& row) {
    const Parsed* at = find(key);
    if (at == nullptr) return;
    if (!at->is_object()) return refuse(key, *at, "an object");
    Reader reader(*at, status_, *this, key);
    fields(reader, row);
  }
  template <class Row>
  void optional_row(const char* key, std::optional<Row>& value) {
    value.reset();
    if (json_.contains(key)) row(key, value.emplace());
  }
  template <class Row>
  void rows(const char* key, std::vector<Row>& rows) {
    const Parsed* list = find_list(key);
    if (list == nullptr) return;
    rows.clear();
    for (std::size_t i = 0; i < list->size() && status_.ok(); ++i) {
      Reader reader((*list)[i], status_, *this, key, i);
      fields(reader, rows.emplace_back());
    }
  }
  template <class Row>
  void long_row(const char* key, Row& value) {
    if (json_.contains(key)) row(key, value);
  }
  template <class Row>
  void long_rows(const char* key, std::vector<Row>& list) {
    if (json_.contains(key)) rows(key, list);
  }
  void constant(const char* key, int allowed) {
    int found = allowed;
    value(key, found);
    if (found != allowed) fail(key, absl::StrCat("is ", found, "; allowed is ", allowed, ": do both sides run the same build?"));
  }

 private:
  void fail(const char* key, const std::string& what) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(absl::StrCat("rank report: ", path(), key, " ", what));
  }
  Reader(const Parsed& json, Status& status, const Reader& parent, const char* within, std::optional<std::size_t> index = std::nullopt)
      : json_(json), status_(status), parent_(&parent), within_(within), index_(index) {}

  const Parsed* find(const char* key) {
    if (!status_.ok()) return nullptr;
    const auto at = json_.find(key);
    if (at != json_.end()) return &*at;
    fail(key, "is missing");
    return nullptr;
  }
  const Parsed* find_list(const char* key) {
    const Parsed* at = find(key);
    if (at == nullptr || at->is_array()) return at;
    refuse(key, *at, "an array");
    return nullptr;
  }
  void read(const char* key, const Parsed& at, std::string& value) {
    if (!at.is_string()) return refuse(key, at, "a text");
    value = at.get_ref<const std::string&>();
  }
  void read(const char* key, const Parsed& at, double& value) {
    if (!at.is_number()) return refuse(key, at, "a number");
    value = at.get<double>();
  }
  template <std::integral Int>
  void read(const char* key, const Parsed& at, Int& value) {
    const bool fits = at.is_number_unsigned() ? std::in_range<Int>(at.get<std::uint64_t>())
                                              : at.is_number_integer() && std::in_range<Int>(at.get<std::int64_t>());
    if (!fits) return refuse(key, at, sizeof(Int) == 4 ? "a whole number of 32 bits" : "a whole number of 64 bits");
    value = at.get<Int>();
  }
  template <class Enum>
  void one_of(const char* key, Enum& found, Enum last) {
    std::string text;
    value(key, text);
    if (!status_.ok()) return;
    std::string allowed;
    for (int i = 0; i <= static_cast<int>(last); ++i) {
      found = static_cast<Enum>(i);
      if (text == trace::key(found)) return;
      absl::StrAppend(&allowed, i == 0 ? "" : ", ", trace::key(found));
    }
    fail(key, absl::StrCat("is '", text.substr(0, 40), "'; allowed: ", allowed));
  }
  void refuse(const char* key, const Parsed& at, const char* allowed) {
    fail(key, absl::StrCat("is of type ", at.type_name(), "; allowed is ", allowed));
  }
  std::string path() const {
    return parent_ == nullptr ? "" : absl::StrCat(parent_->path(), within_, index_ ? absl::StrCat("[", *index_, "]") : "", ".");
  }

  const Parsed& json_;
  Status& status_;
  const Reader* parent_ = nullptr;
  const char* within_ = "";            // key of the parent's
  std::optional<std::size_t> index_;   // where that is a list
};

}  // namespace

std::string to_json(const RankReport& report, bool brief) {
  std::string text;
  Writer(text, brief).object(report);
  return text;
}

std::string rows_to_json(const RankReport& report, std::string_view list, bool brief) {
  std::string text;
  Writer writer(text, brief);
  ListWriter only(writer, list, report.rank);
  fields(only, report);
  return text;
}

StatusOr<RankReport> rank_report_from_json(std::string_view text) {
  const Parsed json = Parsed::parse(text, nullptr, false);
  if (!json.is_object()) return absl::InvalidArgumentError(absl::StrCat("rank report: ", text.size(), " bytes that are no JSON object"));
  Status status;
  Reader reader(json, status);
  RankReport report;
  fields(reader, report);
  TROUPE_RETURN_IF_ERROR(status);
  return report;
}

std::string to_json(const RankTrace& trace) {
  std::string text;
  Writer(text, false).object(trace);
  return text;
}

StatusOr<RankTrace> rank_trace_from_json(std::string_view text) {
  const Parsed json = Parsed::parse(text, nullptr, false);
  if (!json.is_object()) return absl::InvalidArgumentError(absl::StrCat("rank trace: ", text.size(), " bytes that are no JSON object"));
  Status status;
  Reader reader(json, status);
  RankTrace trace;
  fields(reader, trace);
  TROUPE_RETURN_IF_ERROR(status);
  return trace;
}

std::string events_to_json(const std::vector<EventRow>& events, std::int64_t now_ns) {
  Json list = Json::array();
  for (const auto& event : events) {
    list.push_back({{"kind", key(event.kind)},
                    {"text", event.text},
                    {"at_s", in_seconds(event.at_ns)},
                    {"age_s", in_seconds(std::max<std::int64_t>(0, now_ns - event.at_ns - event.duration_ns))},
                    {"duration_s", in_seconds(event.duration_ns)},
                    {"number", event.number},
                    {"others", event.others},
                    {"from", event.from}});
  }
  return dump(list);
}

std::string to_json(const WaitGraph& graph) {
  const auto id_of = [&graph](int node) { return id(graph.nodes[static_cast<std::size_t>(node)]); };
  const auto ids_of = [&id_of](const std::vector<int>& nodes) {
    Json ids = Json::array();
    for (const int node : nodes) ids.push_back(id_of(node));
    return ids;
  };
  Json json{{"schema", kSchema}, {"nodes", Json::array()}, {"edges", Json::array()}, {"cycles", Json::array()}, {"roots", Json::array()}};
  for (const auto& node : graph.nodes) {
    json["nodes"].push_back({{"id", id(node)},
                             {"rank", node.rank},
                             {"actor", node.actor},
                             {"state", node.state},
                             {"detail", node.detail},
                             {"from", node.from},
                             {"number", node.number},
                             {"since_s", in_seconds(node.since_ns)}});
  }
  for (const auto& edge : graph.edges) json["edges"].push_back({{"from", id_of(edge.from)}, {"to", id_of(edge.to)}, {"why", edge.why}, {"young", edge.is_young}});
  for (const auto& cycle : graph.cycles) json["cycles"].push_back(ids_of(cycle));
  for (const int root : graph.roots) {
    const auto& node = graph.nodes[static_cast<std::size_t>(root)];
    json["roots"].push_back({{"id", id(node)}, {"why", root_text(node)}, {"since_s", in_seconds(node.since_ns)}});
  }
  json["chain"] = ids_of(graph.chain);
  json["text"] = to_text(graph);
  return dump(json);
}

}  // namespace troupe::trace
