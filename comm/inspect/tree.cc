#include "comm/inspect/tree.h"

#include <algorithm>
#include <cstddef>

namespace troupe::comm {

std::vector<Rank> RankTree::children(Rank of) const {
  const int first = kChildrenMost * index_of(of) + 1;
  std::vector<Rank> ranks;
  for (int index = first; index < std::min(first + kChildrenMost, world_); ++index) ranks.push_back(at(index));
  return ranks;
}

std::vector<Rank> RankTree::subtree(Rank top) const {
  std::vector<Rank> ranks{top};
  for (std::size_t next = 0; next < ranks.size(); ++next) {
    const auto below = children(ranks[next]);
    ranks.insert(ranks.end(), below.begin(), below.end());
  }
  return ranks;
}

bool RankTree::within(Rank rank, Rank top) const {
  int index = index_of(rank);
  while (index > index_of(top)) index = (index - 1) / kChildrenMost;
  return index == index_of(top);
}

int RankTree::height(Rank top) const {
  int height = 0;
  for (int index = kChildrenMost * index_of(top) + 1; index < world_; index = kChildrenMost * index + 1) ++height;  // the leftmost is deepest
  return height;
}

}  // namespace troupe::comm
