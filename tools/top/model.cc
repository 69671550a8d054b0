#include "tools/top/model.h"

#include <algorithm>
#include <ctime>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tools/troupe/answer_fields.h"

namespace troupe::top {
namespace {

constexpr double kOldAfter_s = 2.5;
constexpr std::size_t kLeastRows = 5, kLeastColumns = 20, kShortScreen = 16;

const std::vector<std::string> kHelp{
    "KEYS",
    "  Tab, right, left     the next view, the one before",
    "  1 to 6               ranks, actors, edges, waits, collectives, streams",
    "  up, down, k, j       move; Page Up, Page Down, Home, End",
    "  Enter                look into an actor: its mailbox, its last events",
    "  Esc                  out of it; forget the filter",
    "  s                    the next way to sort; D depth, A age of the oldest",
    "                       message, B busy, G growth of the mailbox, N name",
    "  /                    show only lines that contain a text",
    "  p, space             pause the display, not the job",
    "  ?, h                 this",
    "  q, Ctrl-C            quit",
    "",
    "SIGNS",
    "  FREE 0/4!            an edge of 4 credits has none left: its sender waits",
    "  DONE/S, GROWTH/S     messages handled, and more in the mailbox, a second",
    "  BUSY                 share of the time in handlers",
};

std::string clock_text(double unix_s) {
  const auto seconds = static_cast<std::time_t>(unix_s);
  std::tm local{};
  char text[16];
  localtime_r(&seconds, &local);
  return {text, std::strftime(text, sizeof text, "%H:%M:%S", &local)};
}

bool contains(const std::string& text, const std::string& part) { return absl::StrContains(absl::AsciiStrToLower(text), absl::AsciiStrToLower(part)); }

bool matches(const Row& row, const std::string& filter) {
  return std::ranges::any_of(row.cells, [&](const std::string& cell) { return contains(cell, filter); }) || contains(row.id, filter);
}

}  // namespace

void Model::frame(nlohmann::json frame, double now_s) {
  latest_.rates.look(frame);
  latest_.frame = std::move(frame);
  latest_.seen_s = now_s;
  trouble_.clear();
  if (const auto& training = training_of(latest_.frame); training.is_object()) {
    training_ = training;
    training_seen_s_ = now_s;
  }
  if (!paused_) shown_ = latest_;
}

void Model::no_answer(const std::string& why) { trouble_ = why; }

void Model::job_ended(double now_s) { ended_s_ = now_s; }

void Model::actor(const std::string& id, nlohmann::json mailbox, nlohmann::json peek, const std::string& why) {
  if (id != opened_ || (paused_ && mailbox_.is_object())) return;
  actor_trouble_ = why;
  if (!why.empty()) return;  // what was seen last stays
  mailbox_ = std::move(mailbox);
  peek_ = std::move(peek);
}

void Model::key(int key) {
  if (ended_s_ > 0) leaves_ = true;
  if (leaves_ || filter_key(key)) return;
  if (key == 'q' || key == 'Q') {
    leaves_ = true;
  } else if (key == '?' || key == 'h') {
    help_ = !help_;
    first_ = 0;
  } else if (key == kEscape || key == kBackspace) {
    if (help_) help_ = false;
    else if (!opened_.empty()) opened_.clear();
    else filter_.clear();
    first_ = 0;
  } else if (key == 'p' || key == ' ') {
    pause();
  } else if (key == '/') {
    help_ = false;
    typing_ = true;
  } else if (key == kEnter) {
    open_selected();
  } else if (!view_key(key) && !sort_key(key)) {
    move(key);
  }
}

bool Model::filter_key(int key) {
  if (!typing_) return false;
  if (key == kEnter) {
    typing_ = false;
  } else if (key == kEscape) {
    typing_ = false;
    filter_.clear();
  } else if (key == kBackspace) {
    while (!filter_.empty() && (static_cast<unsigned char>(filter_.back()) & 0xC0) == 0x80) filter_.pop_back();
    if (!filter_.empty()) filter_.pop_back();
  } else if (key >= ' ' && key <= 0xFF && key != 0x7F) {
    filter_ += static_cast<char>(key);
  } else {
    return false;  // moves in what is left
  }
  first_ = 0;
  return true;
}

bool Model::view_key(int key) {
  constexpr int count = static_cast<int>(kViewNames.size());
  const int now = static_cast<int>(view_);
  if (key >= '1' && key < '1' + count) show(static_cast<View>(key - '1'));
  else if (key == '\t' || key == kRight) show(static_cast<View>((now + 1) % count));
  else if (key == kLeft) show(static_cast<View>((now + count - 1) % count));
  else return false;
  return true;
}

bool Model::sort_key(int key) {
  constexpr std::string_view letters = "DABGN";
  if (key == 's') sort_ = static_cast<Sort>((static_cast<std::size_t>(sort_) + 1) % kSortNames.size());
  else if (const auto at = key > 0 && key < 128 ? letters.find(static_cast<char>(key)) : std::string_view::npos; at != std::string_view::npos) sort_ = static_cast<Sort>(at);
  else return false;
  first_ = 0;
  selected_.clear();
  stays_on_top_ = true;
  return true;
}

void Model::show(View view) {
  view_ = view;
  help_ = false;
  opened_.clear();
  selected_.clear();
  stays_on_top_ = true;
  first_ = 0;
}

void Model::pause() {
  paused_ = !paused_;
  if (!paused_) shown_ = latest_;
}

void Model::open_selected() {
  if (help_ || view_ != View::kActors || !opened_.empty() || selected_.empty()) return;
  opened_ = selected_;
  mailbox_ = peek_ = nullptr;
  actor_trouble_.clear();
  first_ = 0;
}

void Model::move(int key) {
  const auto page = static_cast<std::ptrdiff_t>(page_);
  std::ptrdiff_t by = 0;
  if (key == kUp || key == 'k') by = -1;
  else if (key == kDown || key == 'j') by = 1;
  else if (key == kPageUp) by = -page;
  else if (key == kPageDown) by = page;
  else if (key == kHome) by = -(PTRDIFF_MAX / 2);
  else if (key == kEnd) by = PTRDIFF_MAX / 2;
  else return;
  if (is_text()) {  // body() keeps it within what there is
    first_ = static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, static_cast<std::ptrdiff_t>(first_) + by));
    return;
  }
  if (ids_.empty()) return;
  const auto at = std::ranges::find(ids_, selected_);
  const auto now = at == ids_.end() ? 0 : at - ids_.begin();
  const auto to = std::clamp<std::ptrdiff_t>(now + by, 0, static_cast<std::ptrdiff_t>(ids_.size()) - 1);
  selected_ = ids_[static_cast<std::size_t>(to)];
  stays_on_top_ = to == 0;
}

std::vector<Line> Model::lines(Size size, double now_s) {
  if (size.rows == 0 || size.columns == 0) return {};
  std::vector<Line> all;
  if (size.rows < kLeastRows || size.columns < kLeastColumns) {
    all = {{"too small a screen", Look::kPlain}};
  } else {
    all = head(size, now_s);
    if (const std::size_t room = size.rows - all.size() - 1; room > 0) {
      const auto rows = body(room, size.columns);
      all.insert(all.end(), rows.begin(), rows.end());
    }
    all.resize(size.rows - 1);
    all.push_back({foot(), typing_ ? Look::kTitle : Look::kDim});
  }
  for (auto& line : all) line.text = cut(printable(line.text), size.columns);
  return all;
}

std::string Model::title(double now_s) const {
  const auto& job = tool::part_of(shown_.frame, "job");
  const double started_s = tool::number(job, "started_unix_s");
  std::string text = absl::StrCat("troupe top  job ", job_);
  if (!job.empty()) {
    absl::StrAppend(&text, "  ", tool::count(job, "world"), tool::number(job, "world") == 1 ? " rank" : " ranks");
    if (started_s > 0) absl::StrAppend(&text, "  for ", tool::duration(std::max(0.0, (ended_s_ > 0 ? ended_s_ : now_s) - started_s)));
  }
  if (paused_) absl::StrAppend(&text, "  PAUSED at ", clock_text(shown_.seen_s));
  if (!job.empty()) absl::StrAppend(&text, "  ", tool::word(job, "program"));
  return text;
}

std::vector<Line> Model::head(Size size, double now_s) const {
  std::vector<Line> all{{title(now_s), Look::kTitle}};
  const bool is_short = size.rows < kShortScreen;
  if (ended_s_ > 0) {
    all.push_back({absl::StrCat("THE JOB HAS ENDED at ", clock_text(ended_s_), ": its last picture; any key leaves"), Look::kBad});
  } else if (!trouble_.empty()) {
    const std::string since = latest_.seen_s > 0 ? absl::StrCat(" for ", tool::duration(now_s - latest_.seen_s)) : "";
    all.push_back({absl::StrCat("NO ANSWER", since, ": ", trouble_), Look::kBad});
  } else if (latest_.seen_s > 0 && now_s - latest_.seen_s > kOldAfter_s) {
    all.push_back({absl::StrCat("no answer yet; this is ", tool::duration(now_s - latest_.seen_s), " old"), Look::kBad});
  } else if (!is_short) {
    all.push_back({shown_.seen_s > 0 ? summary_text(shown_.frame) : "asking", Look::kPlain});
  }
  if (training_.is_object()) {
    const auto& shown = training_of(shown_.frame);
    const bool is_old = !shown.is_object();
    const std::string text = training_text(is_old ? training_ : shown);
    all.push_back({is_old ? absl::StrCat("last heard ", tool::duration(now_s - training_seen_s_), " ago: ", text) : text, is_old ? Look::kBad : Look::kPlain});
  }
  all.push_back({matter(), Look::kPlain});
  return all;
}

// Which view, how it is sorted and filtered.
std::string Model::matter() const {
  if (help_) return "help";
  std::string text;
  for (std::size_t i = 0; i < kViewNames.size(); ++i) {
    const bool is_it = i == static_cast<std::size_t>(view_);
    absl::StrAppend(&text, i > 0 ? " " : "", is_it ? "[" : "", i + 1, " ", kViewNames[i], is_it ? "]" : "");
  }
  std::string state;
  if (!opened_.empty()) state = opened_;
  else if (view_ != View::kWaits) state = absl::StrCat("by ", kSortNames[static_cast<std::size_t>(sort_)]);
  if (!filter_.empty() && opened_.empty()) absl::StrAppend(&state, " /", filter_);
  return absl::StrCat("[", kViewNames[static_cast<std::size_t>(view_)], "] ", state, "   ", text);
}

std::string Model::foot() const {
  if (typing_) return absl::StrCat("/", filter_, "_   Enter: keep, Esc: forget");
  if (help_) return "Esc back  q quit";
  if (!opened_.empty()) return "Esc back  p pause  ? help  q quit";
  return view_ == View::kActors ? "q quit  ? help  Tab view  s sort  / filter  Enter open  p pause" : "q quit  ? help  Tab view  s sort  / filter  p pause";
}

std::vector<Row> Model::chosen_rows(const Rows& all) const {
  std::vector<Row> rows;
  std::ranges::copy_if(all.rows, std::back_inserter(rows), [&](const Row& row) { return filter_.empty() || matches(row, filter_); });
  const auto sort = static_cast<std::size_t>(sort_);
  const int column = all.sort_columns[sort];
  if (column < 0) return rows;
  if (sort_ == Sort::kName) std::ranges::stable_sort(rows, {}, [&](const Row& row) { return row.cells[static_cast<std::size_t>(column)]; });
  else std::ranges::stable_sort(rows, std::greater<>(), [&](const Row& row) { return row.weights[sort]; });
  return rows;
}

std::vector<Line> Model::body(std::size_t rows, std::size_t columns) {
  if (is_text()) return text_body(rows, columns);
  Rows all = rows_of(view_, shown_.frame, shown_.rates);
  if (const int column = all.sort_columns[static_cast<std::size_t>(sort_)]; column >= 0) all.columns[static_cast<std::size_t>(column)].drop = 0;
  const auto chosen = chosen_rows(all);
  ids_.clear();
  std::vector<Cells> cells;
  for (const auto& row : chosen) {
    ids_.push_back(row.id);
    cells.push_back(row.cells);
    for (auto& cell : cells.back()) cell = printable(cell);
  }
  if (chosen.empty()) return {{all.rows.empty() ? all.none : absl::StrCat("nothing here contains ", filter_), Look::kDim}};
  const auto at = std::ranges::find(ids_, selected_);
  const auto chosen_at = static_cast<std::size_t>(at == ids_.end() || stays_on_top_ ? 0 : at - ids_.begin());
  selected_ = ids_[chosen_at];
  page_ = std::max<std::size_t>(1, rows - 1);
  if (chosen_at < first_) first_ = chosen_at;
  if (chosen_at >= first_ + page_) first_ = chosen_at - page_ + 1;
  first_ = std::min(first_, ids_.size() - std::min(page_, ids_.size()));

  const auto texts = fitted(all.columns, cells, columns - 1);  // beside the sign of what is selected
  std::vector<Line> lines{{" " + texts[0], Look::kHeader}};
  lines[0].text.resize(std::max(lines[0].text.size(), columns), ' ');
  for (std::size_t i = first_; i < std::min(first_ + page_, chosen.size()); ++i)
    lines.push_back({(i == chosen_at ? ">" : " ") + texts[i + 1], i == chosen_at ? Look::kSelected : chosen[i].look});
  return lines;
}

std::vector<Line> Model::text_body(std::size_t rows, std::size_t columns) {
  std::vector<std::string> texts;
  if (help_) texts = kHelp;
  else if (opened_.empty()) texts = waits_text(shown_.frame);
  else if (mailbox_.is_object()) texts = actor_text(mailbox_, peek_);
  else if (actor_trouble_.empty()) texts = {"asking"};
  const bool is_filtered = !help_ && opened_.empty() && !filter_.empty();
  if (!opened_.empty() && !help_ && !actor_trouble_.empty()) texts.insert(texts.begin(), absl::StrCat("NOT THERE: ", actor_trouble_));
  std::vector<Line> lines;
  for (const auto& text : texts) {
    if (is_filtered && !contains(text, filter_)) continue;
    for (auto& line : wrapped(printable(text), columns)) lines.push_back({std::move(line), text.starts_with("a cycle") || text.starts_with("NOT THERE") ? Look::kBad : Look::kPlain});
  }
  if (lines.empty()) lines.push_back({absl::StrCat("nothing here contains ", filter_), Look::kDim});
  page_ = std::max<std::size_t>(1, rows - 1);  // the line that says how many follow stands for one
  first_ = std::min(first_, lines.size() - std::min(rows, lines.size()));
  const auto begin = lines.begin() + static_cast<std::ptrdiff_t>(first_);
  std::vector<Line> shown(begin, begin + static_cast<std::ptrdiff_t>(std::min(rows, lines.size() - first_)));
  if (const std::size_t below = lines.size() - first_ - shown.size(); below > 0) shown.back() = {absl::StrCat("... ", below + 1, " lines more: Page Down"), Look::kDim};
  return shown;
}

}  // namespace troupe::top
