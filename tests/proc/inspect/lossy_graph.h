// How much is sent in lossy_graph.cc, and when it breaks.
#pragma once

namespace troupe::test {

inline constexpr int kParcels = 40, kNotes = 30, kCrashAt = 12;

}  // namespace troupe::test
