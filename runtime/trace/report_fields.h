// The fields of a report as they are called outside, each once: a writer and a reader of a format go through them. SCHEMA.md says what
// they mean.
//
// `each` has value(key, v) for texts, counts, numbers, states and lists of those; seconds(key, ns); finite(key, v) for a number that there may be
// none of; row(key, r) for a row within; optional_row(key, r) for one that may be missing; rows(key, list); long_row and long_rows
// for what a brief report leaves out; derived(key, v) for what follows from the others and is not read back;
// constant(key, v) for what is the same in all.
#pragma once

#include <type_traits>

#include "runtime/trace/report.h"

namespace troupe::trace {

// A row, to be read into or const.
template <class T, class Row>
concept Is = std::is_same_v<std::remove_const_t<T>, Row>;

void fields(auto& each, Is<MessageCount> auto& row) {
  each.value("type", row.type);
  each.value("handled", row.handled);
  each.seconds("handling_s", row.handling_ns);
}

void fields(auto& each, Is<WaitingMessage> auto& row) {
  each.value("type", row.type);
  each.seconds("age_s", row.age_ns);
}

void fields(auto& each, Is<DeadLetterCount> auto& row) {
  each.value("type", row.type);
  each.value("reason", row.reason);
  each.value("count", row.count);
}

void fields(auto& each, Is<HistogramRow> auto& row) {
  each.value("bounds_s", row.bounds_s);
  each.value("counts", row.counts);
}

void fields(auto& each, Is<ActorRow> auto& row) {
  each.value("name", row.name);
  each.value("state", row.state);
  each.value("detail", row.detail);
  each.value("from", row.from);
  each.value("number", row.number);
  each.seconds("since_s", row.since_ns);
  each.value("depth", row.depth);
  each.value("depth_max", row.depth_max);
  each.value("growth_per_s", row.growth_per_s);
  each.seconds("oldest_s", row.oldest_ns);
  each.value("sent", row.sent);
  each.value("handled", row.handled);
  each.value("dead", row.dead);
  each.seconds("handling_s", row.handling_ns);
  each.value("restarts", row.restarts);
  each.value("events_lost", row.events_lost);
  each.long_rows("messages", row.messages);
  each.long_rows("waiting", row.waiting);
  each.long_rows("dead_letters", row.dead_letters);
  each.long_row("in_mailbox_s", row.in_mailbox);
  each.long_row("in_handler_s", row.in_handler);
}

void fields(auto& each, Is<EdgeRow> auto& row) {
  each.value("name", row.name);
  each.value("from", row.from);
  each.value("from_rank", row.from_rank);
  each.value("to", row.to);
  each.value("to_rank", row.to_rank);
  each.value("capacity", row.capacity);
  each.value("free", row.free);
  each.value("in_flight", row.in_flight);
  each.derived("queued", row.queued());
  each.derived("held", row.held());
  each.value("taken", row.taken);
  each.value("sent", row.sent);
  each.value("delivered", row.delivered);
  each.value("returned", row.returned);
  each.value("reclaimed", row.reclaimed);
  each.value("bytes", row.bytes);
  each.value("bytes_per_s", row.bytes_per_s);
}

void fields(auto& each, Is<StreamRow> auto& row) {
  each.value("name", row.name);
  each.value("kind", row.kind);
  each.value("busy_ratio", row.busy_ratio);
  each.seconds("busy_s", row.busy_ns);
  each.value("queued", row.queued);
  each.value("done", row.done);
  each.value("running", row.running);
  each.seconds("running_s", row.running_ns);
  each.seconds("step_busy_s", row.step_busy_ns);
}

void fields(auto& each, Is<CollectiveRow> auto& row) {
  each.value("group", row.group);
  each.value("sequence", row.sequence);
  each.value("what", row.what);
  each.seconds("since_s", row.since_ns);
  each.value("entered", row.entered);
  each.value("missing", row.missing);
}

void fields(auto& each, Is<Tombstone> auto& row) {
  each.value("name", row.name);
  each.value("cause", row.cause);
  each.value("chain", row.chain);
  each.seconds("ended_s", row.at_ns);
  each.value("sent", row.sent);
  each.value("handled", row.handled);
  each.value("dead", row.dead);
  each.long_rows("dead_letters", row.dead_letters);
}

void fields(auto& each, Is<BadputRow> auto& row) {
  each.value("type", row.type);
  each.seconds("seconds", row.spent_ns);
}

void fields(auto& each, Is<TrainingRow> auto& row) {
  each.value("step", row.step);
  each.value("steps", row.steps);
  each.value("steps_here", row.steps_here);
  each.finite("loss", row.loss);
  each.finite("grad_norm", row.grad_norm);
  each.value("lr", row.learning_rate);
  each.finite("val_loss", row.validation_loss);
  each.value("val_step", row.validation_step);
  each.value("tokens", row.tokens);
  each.value("tokens_here", row.tokens_here);
  each.value("effective_tokens", row.effective_tokens);
  each.value("tokens_per_s", row.tokens_per_s);
  each.value("mfu_ratio", row.mfu_ratio);
  each.seconds("step_s", row.step_ns);
  each.seconds("median_step_s", row.median_step_ns);
  each.seconds("data_wait_s", row.data_wait_ns);
  each.seconds("checkpoint_wait_s", row.checkpoint_wait_ns);
  each.seconds("step_open_s", row.step_open_ns);
  each.seconds("wall_s", row.wall_ns);
  each.seconds("useful_s", row.useful_ns);
  each.value("goodput_ratio", row.goodput_ratio);
  each.rows("badput", row.badput);
  each.value("skipped_steps", row.skipped_steps);
  each.value("restarts", row.restarts);
  each.seconds("steps_s", row.steps_ns);
  each.row("step_times", row.step_times);
}

void fields(auto& each, Is<RankReport> auto& report) {
  each.constant("schema", kSchema);
  each.value("rank", report.rank);
  each.value("host", report.host);
  each.value("answered", report.answered);
  if (!report.answered) {
    each.value("error", report.error);
    each.value("silent_s", report.silent_s);
    return;
  }
  each.value("pid", report.pid);
  each.value("at_unix_s", report.at_unix_s);
  each.seconds("probe_s", report.snapshot.at_ns);
  each.value("restarts", report.restarts);
  each.value("memory_bytes", report.memory_bytes);
  each.value("memory_peak_bytes", report.memory_peak_bytes);
  each.rows("actors", report.snapshot.actors);
  each.rows("edges", report.snapshot.edges);
  each.rows("streams", report.streams);
  each.rows("collectives", report.collectives);
  each.rows("tombstones", report.snapshot.tombstones);
  each.value("tombstones_dropped", report.snapshot.tombstones_dropped);
  each.optional_row("training", report.training);
}

}  // namespace troupe::trace
