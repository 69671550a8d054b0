// Which members of a group share a machine (node), and the ways that follow from it: who sums for a node, who hands a result on.
//
// Between nodes every element goes once to a node and comes once from it: for each part every node has a delegate. It sums its node's
// addends and sends the sum to the part's owner; it takes the owner's result and hands it on in its node. On the owner's own node the owner
// is the delegate. Delegates of the parts of one node are spread over the members of another by their place in it. A broadcast goes down
// binomial trees instead: one over the delegates, one in each node.
// With one node all this is: everybody's addend goes to the owner, the owner's result to everybody.
//
// Threads: immutable. Limits: none; nodes may be of any sizes, and members of a node need not be neighbours.
// Invariants: every member hears every part once, from result_from (Layout.EverybodyHearsEveryPartOnce); bytes between nodes are at most
// those without nodes over the members of the smallest node (SimCollectives.EndEverywhereWithTheRightBitsOrWithACause).
#pragma once

#include <vector>

#include "comm/collective/collective.h"

namespace troupe::comm {

class Layout {
 public:
  // `node_of`: a number for each member, equal where they share a node; empty: one node. Nodes are then counted in the order of their
  // first members: that is the order in which their sums are folded.
  Layout(int members, const std::vector<int>& node_of);

  int nodes() const { return static_cast<int>(members_.size()); }
  int node_of(int member) const { return node_of_[static_cast<std::size_t>(member)]; }
  const std::vector<int>& members(int node) const { return members_[static_cast<std::size_t>(node)]; }  // ascending
  bool share_node(int a, int b) const { return node_of(a) == node_of(b); }

  // Who of `node` acts for it where `part` is concerned. `part` stands for its owner.
  int delegate(int node, int part) const;
  // Whom `member` sends its addends of `part` to; itself if it folds them.
  int folds(int member, int part) const { return delegate(node_of(member), part); }
  // From whom `member`, not the owner, gets what `part` shall be, and to whom it hands that on.
  int result_from(CollectiveKind kind, int part, int member) const;
  std::vector<int> result_to(CollectiveKind kind, int part, int member) const;

 private:
  std::vector<int> delegates(int part) const;                   // one a node, the owner first
  std::vector<int> mates(int part, int node) const;             // of one node, its delegate first

  std::vector<int> node_of_, place_;  // by member: its node; its place among the node's members
  std::vector<std::vector<int>> members_;
};

}  // namespace troupe::comm
