#include "runtime/trace/chrome_trace.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace troupe::trace {
namespace {

using Json = nlohmann::ordered_json;

std::string quoted(const std::string& text) { return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace); }

// Of "activation@1" the name and 1.
std::optional<std::pair<std::string, int>> far_end(const std::string& actor) {
  const auto at = actor.rfind('@');
  int rank = 0;
  if (at == std::string::npos || !absl::SimpleAtoi(actor.substr(at + 1), &rank)) return {};
  return std::pair(actor.substr(0, at), rank);
}

struct Slice {
  std::int64_t begin_ns = 0, end_ns = 0;
  std::string name;
  const char* category = "";
  std::string arguments{};
};

// One of the two ends of an arrow.
struct Point {
  int rank = 0, line = 0;
  std::int64_t at_ns = 0;
};

class Picture {
 public:
  explicit Picture(std::span<const RankTrace> ranks) : ranks_(ranks) {
    if (ranks.empty()) return;
    base_s_ = std::floor(ranks.front().at_unix_s);
    start_ns_ = INT64_MAX;
    for (const auto& rank : ranks) {
      shift_[rank.rank] = std::llround((rank.at_unix_s - base_s_) * 1e9) - rank.probe_ns;
      for (const auto& stream : rank.streams) {
        for (const auto* list : {&stream.operations, &stream.running}) {
          for (const auto& operation : *list) began(rank, operation.begin_ns);
        }
      }
      for (const auto& actor : rank.actors) {
        for (const auto& event : actor.events) began(rank, event.at_ns);
      }
      for (const auto& counter : rank.counters) began(rank, counter.at_ns);
    }
  }

  std::string text(const std::string& job) {
    out_ = "{\"traceEvents\":[\n";
    for (const auto& rank : ranks_) add_rank(rank);
    add_messages();
    add_frames();
    if (out_.ends_with(",\n")) out_.resize(out_.size() - 2);
    absl::StrAppend(&out_, "\n],\"displayTimeUnit\":\"ms\",\"otherData\":", other(job), "}\n");
    return std::move(out_);
  }

 private:
  void began(const RankTrace& rank, std::int64_t at_ns) { start_ns_ = std::min(start_ns_, at_ns + shift_[rank.rank]); }
  std::int64_t shared_ns(int rank, std::int64_t at_ns) const { return std::max<std::int64_t>(0, at_ns + shift_.at(rank) - start_ns_); }
  static std::string microseconds(std::int64_t ns) { return absl::StrFormat("%d.%03d", ns / 1000, ns % 1000); }

  void add(const char* phase, int rank, int line, const std::string& rest) {
    absl::StrAppend(&out_, "{\"ph\":\"", phase, "\",\"pid\":", rank, ",\"tid\":", line, ",", rest, "},\n");
  }
  void describe(int rank, int line, const char* what, const std::string& arguments) {
    add("M", rank, line, absl::StrCat("\"name\":\"", what, "\",\"args\":{", arguments, "}"));
  }
  int new_line(int rank, const std::string& name) {
    const int line = ++lines_[rank];
    describe(rank, line, "thread_name", absl::StrCat("\"name\":", quoted(name)));
    describe(rank, line, "thread_sort_index", absl::StrCat("\"sort_index\":", line));
    return line;
  }

  void add_rank(const RankTrace& rank) {
    describe(rank.rank, 0, "process_name", absl::StrCat("\"name\":", quoted(absl::StrCat("rank ", rank.rank, " (", rank.host, ")"))));
    describe(rank.rank, 0, "process_sort_index", absl::StrCat("\"sort_index\":", rank.rank));
    for (const auto& stream : rank.streams) add_stream(rank.rank, stream);
    for (const auto& actor : rank.actors) add_actor(rank.rank, actor);
    for (const auto& counter : rank.counters) {
      add("C", rank.rank, 0, absl::StrCat("\"ts\":", microseconds(shared_ns(rank.rank, counter.at_ns)), ",\"name\":", quoted(counter.name),
                                          ",\"args\":{\"free\":", counter.value, "}"));
    }
  }

  void add_stream(int rank, const TracedStream& stream) {
    const int line = new_line(rank, absl::StrCat("stream ", stream.name));
    std::vector<Slice> slices;
    for (const auto* list : {&stream.operations, &stream.running}) {
      for (const auto& operation : *list) {
        std::string arguments = absl::StrCat("\"waited_us\":", microseconds(operation.waited_ns));
        if (operation.step >= 0) absl::StrAppend(&arguments, ",\"step\":", operation.step);
        if (operation.micro_batch >= 0) absl::StrAppend(&arguments, ",\"micro_batch\":", operation.micro_batch);
        slices.push_back({operation.begin_ns, operation.end_ns, operation.name, "operation", std::move(arguments)});
      }
    }
    add_slices(rank, line, std::move(slices));
    lost_ += stream.lost;
  }

  void add_actor(int rank, const TracedActor& actor) {
    const int line = new_line(rank, actor.name);
    line_of_[{rank, actor.name}] = line;
    lost_ += actor.lost;
    std::vector<Slice> slices;
    std::int64_t depth = -1;
    for (const auto& event : actor.events) {
      if (event.kind != "handled") {
        add("i", rank, line, absl::StrCat("\"ts\":", microseconds(shared_ns(rank, event.at_ns)), ",\"s\":\"t\",\"cat\":", quoted(event.kind),
                                          ",\"name\":", quoted(event.text), ",\"args\":{\"number\":", event.number, "}"));
        continue;
      }
      slices.push_back({event.at_ns, event.at_ns + event.duration_ns, event.text, "message", event.others > 0 ? absl::StrCat("\"others_before\":", event.others) : ""});
      if (depth == event.number) continue;
      depth = event.number;
      add("C", rank, 0, absl::StrCat("\"ts\":", microseconds(shared_ns(rank, event.at_ns + event.duration_ns)), ",\"name\":",
                                     quoted(absl::StrCat("mailbox ", actor.name)), ",\"args\":{\"messages\":", depth, "}"));
    }
    add_slices(rank, line, std::move(slices));
  }

  // One after the other: what was rounded into the next one's time is cut.
  void add_slices(int rank, int line, std::vector<Slice> slices) {
    std::ranges::stable_sort(slices, {}, &Slice::begin_ns);
    for (std::size_t i = 0; i < slices.size(); ++i) {
      const auto& slice = slices[i];
      const std::int64_t end_ns = i + 1 < slices.size() ? std::min(slice.end_ns, slices[i + 1].begin_ns) : slice.end_ns;
      const std::int64_t begin = shared_ns(rank, slice.begin_ns);
      add("X", rank, line, absl::StrCat("\"ts\":", microseconds(begin), ",\"dur\":", microseconds(std::max<std::int64_t>(0, end_ns - slice.begin_ns)),
                                        ",\"cat\":\"", slice.category, "\",\"name\":", quoted(slice.name), ",\"args\":{", slice.arguments, "}"));
    }
  }

  void arrow(const std::string& name, const char* category, const Point& from, const Point& to) {
    if (to.at_ns < from.at_ns) {
      ++backwards_;
      return;
    }
    const std::string rest = absl::StrCat(",\"cat\":\"", category, "\",\"name\":", quoted(name), ",\"id\":", ++arrows_);
    add("s", from.rank, from.line, absl::StrCat("\"ts\":", microseconds(from.at_ns), rest));
    add("f", to.rank, to.line, absl::StrCat("\"bp\":\"e\",\"ts\":", microseconds(to.at_ns), rest));
  }

  // Within a rank. A sender whose handler is not in the trace has nothing that an arrow could start from.
  void add_messages() {
    for (const auto& rank : ranks_) {
      std::map<std::string, std::vector<std::pair<std::int64_t, std::int64_t>>> handlers;  // by actor, in order
      for (const auto& actor : rank.actors) {
        for (const auto& event : actor.events) {
          if (event.kind == "handled") handlers[actor.name].emplace_back(event.at_ns, event.at_ns + event.duration_ns);
        }
        std::ranges::sort(handlers[actor.name]);
      }
      const auto handled_at = [&](const std::string& actor, std::int64_t at_ns) {
        const auto found = handlers.find(actor);
        if (found == handlers.end()) return false;
        const auto next = std::ranges::upper_bound(found->second, std::pair(at_ns, INT64_MAX));
        return next != found->second.begin() && std::prev(next)->second >= at_ns;
      };
      for (const auto& actor : rank.actors) {
        for (const auto& event : actor.events) {
          if (event.kind != "handled" || event.from.empty() || !handled_at(event.from, event.sent_ns)) continue;
          arrow(event.text, "message", {rank.rank, line_of_.at({rank.rank, event.from}), shared_ns(rank.rank, event.sent_ns)},
                {rank.rank, line_of_.at({rank.rank, actor.name}), shared_ns(rank.rank, event.at_ns)});
        }
      }
    }
  }

  // From rank to rank.
  void add_frames() {
    using Key = std::tuple<std::string, int, int, std::int64_t>;  // edge, from, to, number
    std::map<Key, Point> left;
    const auto each_mark = [this](const char* mark, const auto& call) {
      for (const auto& rank : ranks_) {
        for (const auto& actor : rank.actors) {
          const auto far = far_end(actor.name);
          if (!far) continue;
          for (const auto& event : actor.events) {
            if (event.kind != "mark" || event.text != mark) continue;
            call(*far, rank.rank, event.number, Point{rank.rank, line_of_.at({rank.rank, actor.name}), shared_ns(rank.rank, event.at_ns)});
          }
        }
      }
    };
    each_mark(kFrameOut, [&](const auto& far, int rank, std::int64_t number, const Point& at) { left[{far.first, rank, far.second, number}] = at; });
    each_mark(kFrameIn, [&](const auto& far, int rank, std::int64_t number, const Point& at) {
      const auto from = left.find({far.first, far.second, rank, number});
      if (from != left.end()) arrow(far.first, "frame", from->second, at);
    });
  }

  std::string other(const std::string& job) const {
    Json error = Json::object();
    for (const auto& rank : ranks_) error[absl::StrCat(rank.rank)] = static_cast<double>(rank.clock_error_ns) / 1e3;
    const Json json{{"program", "troupe"}, {"job", job}, {"lost", lost_}, {"arrows_backwards", backwards_},
                    {"start_unix_s", base_s_ + (start_ns_ == INT64_MAX ? 0.0 : static_cast<double>(start_ns_) / 1e9)},
                    {"clock_error_us", std::move(error)}};
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  const std::span<const RankTrace> ranks_;
  std::string out_;
  double base_s_ = 0;
  std::int64_t start_ns_ = INT64_MAX;         // of the picture, on the shared clock
  std::map<int, std::int64_t> shift_;         // of a rank's probes to the shared clock
  std::map<int, int> lines_;
  std::map<std::pair<int, std::string>, int> line_of_;
  std::int64_t arrows_ = 0, backwards_ = 0, lost_ = 0;
};

}  // namespace

std::string chrome_trace(std::span<const RankTrace> ranks, const std::string& job) { return Picture(ranks).text(job); }

}  // namespace troupe::trace
