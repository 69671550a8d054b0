// Traces of ranks as a file that ui.perfetto.dev and chrome://tracing open: a process for each rank, a line for each of its streams and actors.
//
// Slices: handled messages, operations of streams. Arrows: a message from its sender's handler to its receiver's, and from rank to rank along
// edges; each arrow that is written has both ends. Counters: depth of mailboxes after each message, free credits at each look.
//
// Clocks: a rank's times are put on its host's clock by the pair that it has read at one moment (RankTrace); the error of that reading is in
// the file (otherData), in microseconds. Hosts' clocks differ by as much as they are kept apart (NTP: often a millisecond), which nobody here
// knows. An arrow whose end would then lie before its start is left out and counted, not bent: "arrows_backwards".
// Threads: any; pure. Invariants: Perfetto's rules (ChromeTrace.KeepsTheRulesOfTheFormat).
#pragma once

#include <span>
#include <string>

#include "runtime/trace/rank_trace.h"

namespace troupe::trace {

std::string chrome_trace(std::span<const RankTrace> ranks, const std::string& job);

}  // namespace troupe::trace
