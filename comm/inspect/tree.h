// Who asks whom: the ranks as a complete tree, rooted at whoever asks.
//
// The same on every rank, from (root, world) alone; so a rank that is silent is asked around by whoever asked it.
// Threads: any; pure. Limits: ranks are 0 .. world - 1.
#pragma once

#include <vector>

#include "runtime/base/ids.h"

namespace troupe::comm {

class RankTree {
 public:
  static constexpr int kChildrenMost = 8;
  RankTree(Rank root, int world) : root_(root), world_(world) {}

  Rank root() const { return root_; }
  std::vector<Rank> children(Rank of) const;
  std::vector<Rank> subtree(Rank top) const;      // `top` first
  bool within(Rank rank, Rank top) const;         // the subtree of `top`
  int height(Rank top) const;                     // 0: it has no children

 private:
  int index_of(Rank rank) const { return (rank.value - root_.value + world_) % world_; }
  Rank at(int index) const { return Rank((index + root_.value) % world_); }

  Rank root_;
  int world_;
};

}  // namespace troupe::comm
