// Asks every rank of a job a question, and answers those of others, whatever its actors do: questions and answers are opaque text.
//
// Whoever asks is the root of a tree over the ranks (README.md): the question goes down, what is known of each rank comes up. A rank that is
// silent is reported, and the ranks below it are asked in its place.
//
// Threads: ask by any but the progress thread and that of the answers, also at once; peer_down on the progress thread. The answer function
//          runs on an inspector thread of this object; a second one keeps the time, so a rank whose answer hangs still passes on the others'.
// Owns: nothing of the caller's. The transport outlives it, but may be stopped before. Made before that starts. The destructor waits for an
//       answer that is being computed, and for nothing else; no ask may be under way.
// Errors: of a reply: kDeadlineExceeded no answer in time; what the transport says of a peer that is down; kUnavailable the own transport has
//         stopped; kResourceExhausted an answer above kAnswerBytesMost, or all together above kAnswersBytesMost; kInternal a function that threw;
//         kInvalidArgument, of all ranks, a question above kQuestionBytesMost. Nonsense from outside is counted (refused).
// Invariants: InspectTreeTest.EveryRankIsThereOnce, InspectTreeTest.AsksAroundASilentRank, InspectSim.EveryAskEndsInTimeWithOneReplyOfEachRank.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/inspect/answerer.h"
#include "comm/inspect/wire.h"
#include "comm/transport.h"

namespace troupe::comm {

inline constexpr std::size_t kAnswersBytesMost = std::size_t{1} << 30;  // that one ask gathers

class InspectTree {
 public:
  using Answer = Answerer::Answer;
  using Reply = InspectReply;

  // Takes the transport's channel of inspection. Null: this is the only rank.
  InspectTree(Transport* transport, Answer answer);
  ~InspectTree();
  InspectTree(const InspectTree&) = delete;
  InspectTree& operator=(const InspectTree&) = delete;

  // One reply for each rank, in their order, within `patience` (at most an hour) and what it takes to wake up.
  std::vector<Reply> ask(const std::string& question, std::chrono::nanoseconds patience);
  // What is asked of `peer` ends with the cause at once; without this, when the patience with it does. Once the own transport has stopped the cause is still told.
  void peer_down(Rank peer, const Status& cause);
  // Frames that were none of ours, or not their sender's to send.
  std::int64_t refused() const;

 private:
  class Node;
  Transport* transport_;
  std::shared_ptr<Node> node_;  // the transport's too, which may call it after the end of this
};

}  // namespace troupe::comm
