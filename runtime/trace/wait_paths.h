// Paths in a graph of who waits for whom: circles, ends, and how many wait for one.
// Threads: const after the constructor. Nodes are 0 .. count-1.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace troupe::trace {

class WaitPaths {
 public:
  // first waits for second
  WaitPaths(std::size_t nodes, std::span<const std::pair<int, int>> edges);

  bool waits(int node) const { return !next_[static_cast<std::size_t>(node)].empty(); }
  // Circles, each once, its smallest node first: for every node that is in one and not yet in one of those before, the shortest through it.
  std::vector<std::vector<int>> cycles(std::size_t most) const;
  // Of each node which circles it is in: the same number where nodes wait for each other, directly or not; -1: in none.
  std::vector<int> circle_of() const;
  // How many wait for it, directly or not.
  std::size_t count_waiting(int node) const;
  // The shortest way from a node, itself included, to one that waits for nobody or is one of `ends`; empty if there is none.
  std::vector<int> chain(int from, const std::vector<bool>& ends) const;

 private:
  using Neighbours = std::vector<std::vector<int>>;
  // Nodes in circles, and those on a way from one circle to another.
  std::vector<bool> around_circles() const;

  Neighbours next_, before_;
};

}  // namespace troupe::trace
