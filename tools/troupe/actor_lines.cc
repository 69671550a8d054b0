#include "tools/troupe/actor_lines.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "tools/troupe/answer_fields.h"

namespace troupe::tool {
namespace {

using nlohmann::json;

// The fields of a row, by name: numbers and texts.
template <class Row>
struct Fields;

template <>
struct Fields<ActorLine> {
  static constexpr const char* kList = "actors";
  static constexpr std::pair<const char*, double ActorLine::*> kNumbers[] = {
      {"rank", &ActorLine::rank},           {"number", &ActorLine::number},     {"since_s", &ActorLine::since_s},
      {"depth", &ActorLine::depth},         {"depth_max", &ActorLine::depth_max}, {"oldest_s", &ActorLine::oldest_s},
      {"handled", &ActorLine::handled},     {"handling_s", &ActorLine::handling_s}, {"growth_per_s", &ActorLine::growth_per_s}};
  static constexpr std::pair<const char*, std::string ActorLine::*> kTexts[] = {
      {"name", &ActorLine::name}, {"state", &ActorLine::state}, {"detail", &ActorLine::detail}, {"from", &ActorLine::from}};
};

template <>
struct Fields<SilentRank> {
  static constexpr const char* kList = "unanswered";
  static constexpr std::pair<const char*, double SilentRank::*> kNumbers[] = {{"rank", &SilentRank::rank}, {"silent_s", &SilentRank::silent_s}};
  static constexpr std::pair<const char*, std::string SilentRank::*> kTexts[] = {{"error", &SilentRank::error}};
};

template <class Row>
void read_rows(const json& answer, std::vector<Row>& rows) {
  for (const auto& told : rows_of(answer, Fields<Row>::kList)) {
    if (!told.is_object()) continue;
    Row& row = rows.emplace_back();
    for (const auto& [key, field] : Fields<Row>::kNumbers) {
      if (at(told, key).is_number()) row.*field = number(told, key);
    }
    for (const auto& [key, field] : Fields<Row>::kTexts) row.*field = word(told, key);
  }
}

// What nlohmann's parser calls for each value. The lists are members of the whole (depth 1), their rows are objects (depth 3).
class RowReader {
 public:
  using number_integer_t = json::number_integer_t;
  using number_unsigned_t = json::number_unsigned_t;
  using number_float_t = json::number_float_t;
  using string_t = json::string_t;
  using binary_t = json::binary_t;

  explicit RowReader(ActorLines& lines) : lines_(lines) {}

  bool start_object(std::size_t) {
    aim_at_nothing();
    if (++depth_ != kRow) return true;
    if (list_ == List::kActors) lines_.actors.emplace_back();
    if (list_ == List::kUnanswered) lines_.unanswered.emplace_back();
    return true;
  }
  bool start_array(std::size_t) {
    aim_at_nothing();
    if (depth_ == 0) return false;
    if (++depth_ == kRow - 1) list_ = key_ == Fields<ActorLine>::kList ? List::kActors : key_ == Fields<SilentRank>::kList ? List::kUnanswered : List::kOther;
    return true;
  }
  bool end_object() { return end(); }
  bool end_array() { return end(); }
  bool key(string_t& key) {
    aim_at_nothing();
    if (depth_ == 1) key_ = key;
    if (depth_ == kRow && list_ == List::kActors) aim(key, lines_.actors.back());
    if (depth_ == kRow && list_ == List::kUnanswered) aim(key, lines_.unanswered.back());
    return true;
  }
  bool number_integer(number_integer_t value) { return take(static_cast<double>(value)); }
  bool number_unsigned(number_unsigned_t value) { return take(static_cast<double>(value)); }
  bool number_float(number_float_t value, const string_t&) { return take(value); }
  bool string(string_t& value) {
    if (text_ != nullptr && depth_ == kRow) *text_ = std::move(value);
    return depth_ > 0;
  }
  bool null() { return depth_ > 0; }
  bool boolean(bool) { return depth_ > 0; }
  bool binary(binary_t&) { return depth_ > 0; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) { return false; }

 private:
  enum class List { kOther, kActors, kUnanswered };
  static constexpr int kRow = 3;

  bool end() {
    aim_at_nothing();
    if (--depth_ == 1) list_ = List::kOther;
    return true;
  }
  void aim_at_nothing() {
    number_ = nullptr;
    text_ = nullptr;
  }
  template <class Row>
  void aim(std::string_view key, Row& row) {
    for (const auto& [name, field] : Fields<Row>::kNumbers) {
      if (key == name) number_ = &(row.*field);
    }
    for (const auto& [name, field] : Fields<Row>::kTexts) {
      if (key == name) text_ = &(row.*field);
    }
  }
  bool take(double value) {
    if (number_ != nullptr && depth_ == kRow) *number_ = value;
    return depth_ > 0;
  }

  ActorLines& lines_;
  int depth_ = 0;
  List list_ = List::kOther;
  std::string key_;            // of the whole
  double* number_ = nullptr;   // where the next value of the row belongs
  std::string* text_ = nullptr;
};

}  // namespace

StatusOr<ActorLines> actor_lines(const std::string& text) {
  ActorLines lines;
  RowReader reader(lines);
  if (!json::sax_parse(text, &reader)) return absl::DataLossError("the job answered no JSON: does it run another version?");
  return lines;
}

ActorLines actor_lines(const json& answer) {
  ActorLines lines;
  read_rows(answer, lines.actors);
  read_rows(answer, lines.unanswered);
  return lines;
}

}  // namespace troupe::tool
