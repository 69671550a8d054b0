// Counters of one edge. Each has one writer; anybody reads.
//
// A slot goes free -> taken -> sent -> delivered -> returned -> reclaimed (free again), so at any instant
//   free + (taken - reclaimed) = capacity     and     taken >= sent >= delivered >= returned >= reclaimed.
// `free` is the length of the sender's real list of free slots, not a difference, so the sum is a check and
// no tautology (Graph.KeepsItsCreditsUnderEveryOrderOfEvents).
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "runtime/trace/enabled.h"
#include "runtime/trace/snapshot.h"

namespace troupe::trace {

struct EdgeProbe {
  std::string name, from, to;  // fixed before the actors start
  std::int64_t capacity = 0;
  std::atomic<std::int64_t> free{0}, taken{0}, sent{0}, reclaimed{0};  // by the sender
  std::atomic<std::int64_t> bytes{0};                                  // sent, by the sender
  std::atomic<std::int64_t> delivered{0};                              // by the receiver
  std::atomic<std::int64_t> returned{0};                               // by whoever drops the credit

  void was_taken(std::int64_t now_free) { move(taken, 1, now_free); }
  void was_put_back(std::int64_t now_free) { move(taken, -1, now_free); }
  void was_reclaimed(std::int64_t now_free) { move(reclaimed, 1, now_free); }
  void was_sent(std::int64_t message_bytes) {
    if constexpr (!kProbes) return;
    bytes.store(bytes.load(std::memory_order_relaxed) + message_bytes, std::memory_order_relaxed);
    sent.store(sent.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  void was_delivered() {
    if constexpr (kProbes) delivered.fetch_add(1, std::memory_order_release);
  }
  void was_returned() {
    if constexpr (kProbes) returned.fetch_add(1, std::memory_order_release);
  }

  EdgeRow row() const {
    // Read against the flow, so that a slot which moves meanwhile is never counted before its source.
    EdgeRow row{.name = name, .from = from, .to = to, .capacity = capacity};
    row.reclaimed = reclaimed.load(std::memory_order_acquire);
    row.returned = returned.load(std::memory_order_acquire);
    row.delivered = delivered.load(std::memory_order_acquire);
    row.sent = sent.load(std::memory_order_acquire);
    row.taken = taken.load(std::memory_order_acquire);
    row.free = free.load(std::memory_order_acquire);
    row.bytes = bytes.load(std::memory_order_relaxed);
    row.in_flight = row.taken - row.reclaimed;
    return row;
  }

 private:
  // By the sender.
  void move(std::atomic<std::int64_t>& counter, std::int64_t by, std::int64_t now_free) {
    if constexpr (!kProbes) return;
    free.store(now_free, std::memory_order_release);
    counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_release);
  }
};

}  // namespace troupe::trace
