#include "comm/collective/layout.h"

#include <algorithm>
#include <map>

#include "runtime/base/check.h"

namespace troupe::comm {
namespace {

// A binomial tree over places 0 .. size - 1 with root 0: the parent of a place is it without its lowest bit.
int tree_parent(int place) { return place & (place - 1); }

// The largest subtree first.
std::vector<int> tree_children(int place, int size) {
  std::vector<int> children;
  for (int bit = 1; place + bit < size && (place & bit) == 0; bit <<= 1) children.push_back(place + bit);
  std::reverse(children.begin(), children.end());
  return children;
}

int place_in(const std::vector<int>& list, int member) {
  return static_cast<int>(std::find(list.begin(), list.end(), member) - list.begin());
}

void add_children(std::vector<int>& to, const std::vector<int>& list, int member) {
  for (const int child : tree_children(place_in(list, member), static_cast<int>(list.size()))) {
    to.push_back(list[static_cast<std::size_t>(child)]);
  }
}

}  // namespace

Layout::Layout(int members, const std::vector<int>& node_of) {
  TROUPE_CHECK(node_of.empty() || node_of.size() == static_cast<std::size_t>(members))
      << "nodes of " << node_of.size() << " members in a group of " << members;
  std::map<int, int> dense;
  for (int member = 0; member < members; ++member) {
    const int named = node_of.empty() ? 0 : node_of[static_cast<std::size_t>(member)];
    const int node = dense.emplace(named, static_cast<int>(dense.size())).first->second;
    if (node == nodes()) members_.emplace_back();
    auto& mates = members_[static_cast<std::size_t>(node)];
    node_of_.push_back(node);
    place_.push_back(static_cast<int>(mates.size()));
    mates.push_back(member);
  }
}

int Layout::delegate(int node, int part) const {
  if (node_of(part) == node) return part;
  const auto& its = members(node);
  return its[static_cast<std::size_t>(place_[static_cast<std::size_t>(part)]) % its.size()];
}

std::vector<int> Layout::delegates(int part) const {
  std::vector<int> all{part};
  for (int node = 0; node < nodes(); ++node) {
    if (node != node_of(part)) all.push_back(delegate(node, part));
  }
  return all;
}

std::vector<int> Layout::mates(int part, int node) const {
  std::vector<int> all{delegate(node, part)};
  for (const int member : members(node)) {
    if (member != all.front()) all.push_back(member);
  }
  return all;
}

int Layout::result_from(CollectiveKind kind, int part, int member) const {
  const int acts = folds(member, part);
  if (kind == CollectiveKind::kBroadcast) {
    const auto list = member == acts ? delegates(part) : mates(part, node_of(member));
    return list[static_cast<std::size_t>(tree_parent(place_in(list, member)))];
  }
  return member == acts ? part : acts;
}

std::vector<int> Layout::result_to(CollectiveKind kind, int part, int member) const {
  std::vector<int> to;
  const bool acts = folds(member, part) == member;
  if (kind == CollectiveKind::kBroadcast) {
    if (acts) add_children(to, delegates(part), member);
    add_children(to, mates(part, node_of(member)), member);
    return to;
  }
  if (member == part) {
    to = delegates(part);
    to.erase(to.begin());
  }
  if (acts) {
    for (const int mate : members(node_of(member))) {
      if (mate != member) to.push_back(mate);
    }
  }
  return to;
}

}  // namespace troupe::comm
