// The sums that one member of a group makes in one all-reduce or reduce-scatter, chunk by chunk; knows no transport.
//
// A member folds its own part; where the group spans nodes (layout.h) also, for its node, parts of other nodes' members. The sum of an
// element is that of its nodes' sums, in the order of the nodes, and each node's sum that of its members' addends in the order of members,
// all in fp32; between nodes a sum has the collective's type, so with bf16 each node's sum is rounded once. One node: the sum in member
// order. The bits depend on the group, its nodes and the values, not on parts, chunks, or who came first.
// Chunks of the parts that a member folds take turns: first chunks, then second ones. So the owner of a part and those who sum for it
// elsewhere are never more than a few chunks apart.
//
// Use: until ended(): while source() >= 0, put that member's bytes at place() and add(), or only add() if it is this member; then take().
// Threads: one. Owns: scratch. Errors: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "comm/collective/collective.h"
#include "comm/collective/layout.h"

namespace troupe::comm {

class Folding {
 public:
  // Room for a chunk each; handed from one operation to the next.
  struct Scratch {
    std::vector<float> sum, node_sum;  // of the members, and of the nodes, so far, where it is not in place
    std::vector<std::byte> incoming;
  };
  struct Piece {  // elements [begin, end) of a part
    int part = 0;
    std::int64_t begin = 0, end = 0;
    std::int64_t count() const { return end - begin; }
  };
  struct Folded {
    Piece piece;
    const std::byte* bytes = nullptr;             // the sum: in place, or in `kept`
    std::shared_ptr<std::vector<std::byte>> kept;
  };

  // What `member` folds, in order, in chunks of at most `chunk` elements. All members see the same.
  static std::vector<Piece> pieces(const Layout& layout, const Parts& parts, int member, std::int64_t chunk);

  // Nothing to fold.
  explicit Folding(Scratch scratch) : scratch_(std::move(scratch)) {}
  // `pieces`: of this member (`self`), or everything in one piece where everybody folds all (one node only: `everything`).
  Folding(const Layout& layout, int self, const Collective& collective, std::vector<Piece> pieces, bool everything, Scratch scratch);

  bool ended() const { return next_ == pieces_.size(); }
  const Piece& piece() const { return pieces_[next_]; }
  // Whose addend, or whose node's sum, comes next in this piece; -1: the piece is folded.
  int source() const;
  std::byte* place();
  void add();
  Folded take();
  std::size_t for_others() const { return for_others_; }  // parts that it folds besides its own
  Scratch give_back() { return std::move(scratch_); }

 private:
  bool one_node() const { return layout_->nodes() == 1; }
  bool owned() const { return piece().part == self_; }
  std::size_t locals() const { return layout_->members(layout_->node_of(self_)).size(); }
  bool of_nodes() const { return step_ >= locals(); }  // the members' addends are folded, nodes' sums are next
  bool first() const { return step_ == 0 || step_ == locals(); }
  std::byte* at(std::int64_t element) const { return collective_->data + element * size_; }

  void accumulate(std::vector<float>& sum, const std::byte* addend);
  void add_in_place(int member, const std::byte* addend);
  void write(std::byte* to, const std::vector<float>& sum) const;

  const Layout* layout_ = nullptr;
  int self_ = 0;
  const Collective* collective_ = nullptr;
  std::int64_t size_ = 0;  // bytes of an element
  bool everything_ = false;
  std::vector<Piece> pieces_;
  std::size_t next_ = 0, step_ = 0, for_others_ = 0;
  Scratch scratch_;
};

}  // namespace troupe::comm
