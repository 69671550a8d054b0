// What our messages cost against bare CAF: ping-pong of two actors on two workers, both with the policy `sharing`.
//
// Ours carries the probes, typed dispatch, and one allocation a message; the peer is plain CAF with a behavior of one handler.
// Pairs are interleaved (ours, peer, ours, peer ...), the ratio is the median over the pairs; the spread of a pair against
// itself (peer, peer) says how far the machine's noise goes.
#pragma once

#include <vector>

#include "tests/bench/row.h"

namespace troupe::bench {

struct MessagesOptions {
  int pairs = 9;              // >= 7
  int messages = 200'000;     // of one run
  int threads = 2;
};
// Rows: messages.ratio (bar 0.90), messages.per_s (peer: bare CAF), messages.spread.
std::vector<BenchRow> bench_messages(const MessagesOptions& options = {});

}  // namespace troupe::bench
