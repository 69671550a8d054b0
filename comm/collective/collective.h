// What a collective does: one operation of a group of ranks, each with its own memory.
//
// Sums are folded in the order of the group's members, element by element, in fp32: the bits depend on the members' order and values
// only, not on the chunks, the parts, or who came first. So a reduce-scatter gives what the all-reduce gives. Where members of a group are
// on different nodes, and the group knows, each node's members are summed first, then the nodes (folding.h): other bits, as fixed.
//
// Threads: values; of their memory see Collective. Errors: what cannot be (a cut into another number of parts than there are members, sums of
// integers, a sparse all-gather) is a bug, found when it starts; what members ask differently is engine.h's kFailedPrecondition.
// Units: elements, but for `data` and `from`, which are bytes in memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/device/dtype.h"

namespace troupe::comm {

using GroupId = Id<struct GroupTag>;
// Tells operations of a group apart while they are in flight: chosen by the caller, the same on all members, never used twice.
using OperationId = Id<struct OperationTag, std::int64_t>;

enum class CollectiveKind : std::uint8_t { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kAllToAll, kBarrier };
const char* name(CollectiveKind kind);

// Elements [begin(i), end(i)) belong to member i. Parts may be empty.
struct Parts {
  std::vector<std::int64_t> boundaries{0};  // members + 1, ascending, from 0

  // Near-equal parts, cut at multiples of `grain`.
  static Parts equal(std::int64_t elements, int members, std::int64_t grain = 1);
  std::int64_t begin(int member) const { return boundaries[static_cast<std::size_t>(member)]; }
  std::int64_t end(int member) const { return boundaries[static_cast<std::size_t>(member) + 1]; }
  std::int64_t size(int member) const { return end(member) - begin(member); }
  std::int64_t elements() const { return boundaries.back(); }
  int members() const { return static_cast<int>(boundaries.size()) - 1; }
};

// `data` stays until the operation's end and is touched by nobody else. N elements of `type`, N = parts.elements().
struct Collective {
  CollectiveKind kind = CollectiveKind::kBarrier;
  device::DType type = device::DType::kF32;
  // all-reduce      [N] in: own addend; out: the sum. Parts: who folds what; any cut gives the same bits.
  // reduce-scatter  [N] in: own addend; out: the sum in one's own part, the rest is unchanged.
  // all-gather      [N] in: one's own part; out: all parts.
  // broadcast       [N] in: the root's; out: everybody's. `parts` has one part for each member, empty but for the root's.
  // all-to-all      [N] out: member i's part is what i sent to us; `from` is read.
  std::byte* data = nullptr;
  Parts parts{};
  const std::byte* from = nullptr;  // all-to-all: what goes to member i lies in from_parts' part i
  Parts from_parts{};
  // Of sums, the same on all members: most of an addend is zero. Blocks that are do not travel (sparse.h); the sums' bits are the same.
  bool sparse = false;
  std::string what{};               // for reports: "gradient of block 3, step 7"
};

// Who takes part, in the order in which sums are folded. The same on all members.
struct Group {
  GroupId id;
  std::vector<Rank> members;
  int self = 0;  // our index

  int size() const { return static_cast<int>(members.size()); }
};

}  // namespace troupe::comm
