// Reports as JSON: what goes between ranks, and what the HTTP interface serves. SCHEMA.md describes every field.
// Threads: any; pure. Errors: kInvalidArgument, which names the field and what is allowed there; whatever the bytes are, nothing is thrown.
// Limits: times are seconds as doubles: exact to the nanosecond up to 26 days. Bytes of a name that are no UTF-8 become U+FFFD.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/trace/rank_trace.h"
#include "runtime/trace/report.h"

namespace troupe::trace {

// The page that describes it, SCHEMA.md.
std::string_view schema_page();

// `brief` leaves out what is long: message counts, mailboxes, dead letters by type.
std::string to_json(const RankReport& report, bool brief = false);
// One list of a report, as "actors", with the rank in each row; empty if there is no such list.
std::string rows_to_json(const RankReport& report, std::string_view list, bool brief = false);
StatusOr<RankReport> rank_report_from_json(std::string_view text);
std::string to_json(const RankTrace& trace);
StatusOr<RankTrace> rank_trace_from_json(std::string_view text);
// An actor's last events as a list, each with its age.
std::string events_to_json(const std::vector<EventRow>& events, std::int64_t now_ns);

}  // namespace troupe::trace
