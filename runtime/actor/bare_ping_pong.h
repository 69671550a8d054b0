// The peer of tests/bench/messages: ping-pong in plain CAF, with nothing of ours. Here because CAF is included here only; a
// library of its own that no program links but the benchmark.
#pragma once

namespace troupe::actor {

// Messages per second of two actors that send `balls` integers to and fro, `hops` times each (odd), policy sharing.
double bare_ping_pong_per_s(int balls, int hops, int threads);

}  // namespace troupe::actor
