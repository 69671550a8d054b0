// The fields of a rank's trace as they are called outside, as report_fields.h has those of a report.
#pragma once

#include "runtime/trace/rank_trace.h"
#include "runtime/trace/report_fields.h"

namespace troupe::trace {

void fields(auto& each, Is<TracedEvent> auto& row) {
  each.value("kind", row.kind);
  each.value("text", row.text);
  each.seconds("at_s", row.at_ns);
  each.seconds("duration_s", row.duration_ns);
  each.value("number", row.number);
  each.value("others", row.others);
  each.value("from", row.from);
  each.seconds("sent_s", row.sent_ns);
}

void fields(auto& each, Is<TracedActor> auto& row) {
  each.value("name", row.name);
  each.value("id", row.id);
  each.value("next", row.next);
  each.value("lost", row.lost);
  each.rows("events", row.events);
}

void fields(auto& each, Is<OperationRow> auto& row) {
  each.value("name", row.name);
  each.value("step", row.step);
  each.value("micro", row.micro_batch);
  each.seconds("begin_s", row.begin_ns);
  each.seconds("end_s", row.end_ns);
  each.seconds("waited_s", row.waited_ns);
}

void fields(auto& each, Is<TracedStream> auto& row) {
  each.value("name", row.name);
  each.value("kind", row.kind);
  each.value("next", row.next);
  each.value("lost", row.lost);
  each.rows("operations", row.operations);
  each.rows("running", row.running);
}

void fields(auto& each, Is<TracedCounter> auto& row) {
  each.value("name", row.name);
  each.seconds("at_s", row.at_ns);
  each.value("value", row.value);
}

void fields(auto& each, Is<RankTrace> auto& row) {
  each.constant("schema", kSchema);
  each.value("rank", row.rank);
  each.value("host", row.host);
  each.value("at_unix_s", row.at_unix_s);
  each.seconds("probe_s", row.probe_ns);
  each.seconds("clock_error_s", row.clock_error_ns);
  each.rows("streams", row.streams);
  each.rows("actors", row.actors);
  each.rows("counters", row.counters);
}

}  // namespace troupe::trace
