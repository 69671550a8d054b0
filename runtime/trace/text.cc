#include "runtime/trace/text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace troupe::trace {

std::string to_text(const Snapshot& snapshot) {
  std::string text = absl::StrFormat("%-20s %-18s %-24s %10s %6s %9s %9s %5s\n", "actor", "state", "of",
                                     "since", "depth", "oldest", "handled", "dead");
  for (const auto& a : snapshot.actors) {
    std::string detail = a.number >= 0 ? absl::StrCat(a.detail, a.detail.empty() ? "" : " ", a.number) : a.detail;
    if (!a.from.empty()) absl::StrAppend(&detail, detail.empty() ? "" : " ", "from ", a.from);
    absl::StrAppend(&text,
                    absl::StrFormat("%-20s %-18s %-24s %8.3f s %6d %7.3f s %9d %5d\n", a.name, name(a.state),
                                    detail, static_cast<double>(a.since_ns) * 1e-9, a.depth,
                                    static_cast<double>(a.oldest_ns) * 1e-9, a.handled, a.dead));
  }
  absl::StrAppend(&text, absl::StrFormat("\n%-52s %8s %6s %9s %6s %6s\n", "edge", "capacity", "free",
                                         "in flight", "queued", "held"));
  for (const auto& e : snapshot.edges) {
    absl::StrAppend(&text, absl::StrFormat("%-52s %8d %6d %9d %6d %6d\n", e.name, e.capacity, e.free,
                                           e.in_flight, e.queued(), e.held()));
  }
  for (const auto& t : snapshot.tombstones) absl::StrAppend(&text, "ended: ", t.name, ": ", t.cause, "\n");
  return text;
}

}  // namespace troupe::trace
