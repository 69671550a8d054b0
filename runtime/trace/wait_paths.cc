#include "runtime/trace/wait_paths.h"

#include <algorithm>
#include <queue>
#include <set>

namespace troupe::trace {
namespace {

std::size_t at(int node) { return static_cast<std::size_t>(node); }

// Breadth first from `from`, over nodes that `may_pass` allows, until `is_end` says so of a node that was stepped to. The way there,
// with both ends; empty if there is none. `from` itself is asked only when it is stepped to again.
template <class MayPass, class IsEnd>
std::vector<int> shortest(const std::vector<std::vector<int>>& next, int from, const MayPass& may_pass, const IsEnd& is_end) {
  std::vector<int> came_from(next.size(), -1);
  std::queue<int> queue;
  queue.push(from);
  while (!queue.empty()) {
    const int node = queue.front();
    queue.pop();
    for (const int neighbour : next[at(node)]) {
      if (is_end(neighbour)) {
        std::vector<int> way{node};
        while (way.back() != from) way.push_back(came_from[at(way.back())]);
        std::ranges::reverse(way);
        way.push_back(neighbour);
        return way;
      }
      if (neighbour == from || came_from[at(neighbour)] >= 0 || !may_pass(neighbour)) continue;
      came_from[at(neighbour)] = node;
      queue.push(neighbour);
    }
  }
  return {};
}

// Takes away nodes without neighbours until all that are left have one that is left.
void trim(std::vector<bool>& left, const std::vector<std::vector<int>>& next, const std::vector<std::vector<int>>& before) {
  std::vector<std::size_t> count(next.size());
  std::vector<int> bare;
  for (std::size_t node = 0; node < next.size(); ++node) {
    if (!left[node]) continue;
    for (const int neighbour : next[node]) count[node] += left[at(neighbour)] ? 1 : 0;
    if (count[node] == 0) bare.push_back(static_cast<int>(node));
  }
  while (!bare.empty()) {
    const int node = bare.back();
    bare.pop_back();
    left[at(node)] = false;
    for (const int neighbour : before[at(node)]) {
      if (left[at(neighbour)] && --count[at(neighbour)] == 0) bare.push_back(neighbour);
    }
  }
}

}  // namespace

WaitPaths::WaitPaths(std::size_t nodes, std::span<const std::pair<int, int>> edges) : next_(nodes), before_(nodes) {
  for (const auto& [from, to] : edges) {
    next_[at(from)].push_back(to);
    before_[at(to)].push_back(from);
  }
}

std::vector<bool> WaitPaths::around_circles() const {
  std::vector<bool> left(next_.size(), true);
  trim(left, next_, before_);
  trim(left, before_, next_);
  return left;
}

std::vector<std::vector<int>> WaitPaths::cycles(std::size_t most) const {
  const std::vector<bool> left = around_circles();
  std::vector<bool> listed(next_.size());
  std::vector<std::vector<int>> cycles;
  for (int node = 0; node < static_cast<int>(next_.size()) && cycles.size() < most; ++node) {
    if (!left[at(node)] || listed[at(node)]) continue;
    auto cycle = shortest(
        next_, node, [&](int neighbour) { return left[at(neighbour)]; }, [&](int neighbour) { return neighbour == node; });
    if (cycle.empty()) continue;
    cycle.pop_back();  // where it began
    for (const int member : cycle) listed[at(member)] = true;
    std::ranges::rotate(cycle, std::ranges::min_element(cycle));
    cycles.push_back(std::move(cycle));
  }
  return cycles;
}

// Two walks (Kosaraju): nodes in the order in which nothing more is found behind them; from the last of them back, who leads to it and is not taken yet.
std::vector<int> WaitPaths::circle_of() const {
  std::vector<bool> seen(next_.size());
  std::vector<int> order;
  std::vector<std::pair<int, std::size_t>> way;  // a node, and which of its neighbours is next
  for (int start = 0; start < static_cast<int>(next_.size()); ++start) {
    if (!seen[at(start)]) way.emplace_back(start, 0);
    seen[at(start)] = true;
    while (!way.empty()) {
      auto& [node, neighbour] = way.back();
      if (neighbour == next_[at(node)].size()) {
        order.push_back(node);
        way.pop_back();
        continue;
      }
      const int next = next_[at(node)][neighbour++];
      if (!seen[at(next)]) way.emplace_back(next, 0);
      seen[at(next)] = true;
    }
  }
  std::vector<int> circle(next_.size(), -1);
  std::vector<bool> taken(next_.size());
  for (auto first = order.rbegin(); first != order.rend(); ++first) {
    if (taken[at(*first)]) continue;
    std::vector<int> members{*first};
    taken[at(*first)] = true;
    for (std::size_t i = 0; i < members.size(); ++i) {
      for (const int who : before_[at(members[i])]) {
        if (!taken[at(who)]) members.push_back(who);
        taken[at(who)] = true;
      }
    }
    const bool waits_for_itself = std::ranges::find(next_[at(*first)], *first) != next_[at(*first)].end();
    if (members.size() == 1 && !waits_for_itself) continue;
    for (const int member : members) circle[at(member)] = *first;
  }
  return circle;
}

std::size_t WaitPaths::count_waiting(int node) const {
  std::set<int> found;
  std::vector<int> open{node};
  while (!open.empty()) {
    const int last = open.back();
    open.pop_back();
    for (const int who : before_[at(last)]) {
      if (who != node && found.insert(who).second) open.push_back(who);
    }
  }
  return found.size();
}

std::vector<int> WaitPaths::chain(int from, const std::vector<bool>& ends) const {
  const auto is_end = [&](int node) { return !waits(node) || ends[at(node)]; };
  if (is_end(from)) return {from};
  return shortest(
      next_, from, [](int) { return true; }, is_end);
}

}  // namespace troupe::trace
