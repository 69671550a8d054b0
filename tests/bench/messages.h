// What our messages cost against bare CAF: ping-pong of two actors on two workers, both with the policy
// `sharing`.
//
// Ours carries the probes, typed dispatch, and one allocation a message; the peer is plain CAF with a
// behavior of one handler. Twice: with one ball the wake-up of the other worker dominates, with many balls in
// flight the message itself does. Pairs are interleaved (ours, peer, ours, peer ...), the ratio is the median
// over the pairs; the spread of a pair against itself (peer, peer) says how far the machine's noise goes.
#pragma once

#include <vector>

#include "tests/bench/row.h"

namespace troupe::bench {

struct MessagesOptions {
  int pairs = 9;           // >= 7
  int messages = 200'000;  // of one run
  int threads = 2;
};
// Rows for "one" and for "many" (kManyBalls in flight): messages.X.ratio (bar 0.90), messages.X.per_s (peer:
// bare CAF), messages.X.spread.
inline constexpr int kManyBalls = 64;
// Of one run of ours, with so many in flight.
double messages_per_s(int balls, const MessagesOptions& options = {});
std::vector<BenchRow> bench_messages(const MessagesOptions& options = {});

}  // namespace troupe::bench
