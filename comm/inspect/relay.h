// What one rank does with the questions that pass through it: its own on their way out, others' on their way down, replies on their way up.
//
// A question is asked of a rank together with its subtree (tree.h). The rank asks its children, has its own answer computed, and sends up what
// it knows. It is given a patience and keeps a tenth of it for its replies' way. Who does not say everything within his patience, or is
// down, is reported as such, and his children are asked in his place with what is left. A child without children may take all the time
// there is, another three fifths of it: so a silent one can be asked around, and one below that too.
//
// Threads: the progress thread's alone, but for refused(). It never waits. Time, and the computing of answers, are its host's: threads in
//          inspect_tree.h, virtual time in tests.
// Owns: the replies until the next rank has taken them.
// Errors: what is no frame of ours, or none that its sender may send, is counted and changes nothing; who sends replies that cannot be
//         read is reported.
// Limits: a peer's questions that are open here, and frames for it that it has not taken, kOpenOfOneMost: more are refused. Of each rank
//         that was asked one frame is fetched at a time, of kRepliesBytesMost, and what it says of each rank of its subtree is taken once, or
//         twice where an answer comes after all.
// Invariants: InspectSim.EveryAskEndsInTimeWithOneReplyOfEachRank.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/inspect/tree.h"
#include "comm/inspect/wire.h"
#include "comm/transport.h"
#include "runtime/base/clock.h"

namespace troupe::comm {

class InspectRelay {
 public:
  class Host {
   public:
    virtual ~Host() = default;
    // Has this rank's answer computed elsewhere, and calls answered(number, ...) with it. The job's number, for forget.
    virtual std::int64_t compute(std::int64_t number, const std::string& question) = 0;
    virtual void forget(std::int64_t job) = 0;
    // Calls tick() at that time or soon after.
    virtual void wake_at(std::int64_t time_ns) = 0;
  };
  static constexpr std::int64_t kPatienceNsMost = 3'600'000'000'000;
  static constexpr int kOpenOfOneMost = 256;

  InspectRelay(Transport& transport, const Clock& clock, Host& host) : transport_(transport), clock_(clock), host_(host) {}
  InspectRelay(const InspectRelay&) = delete;
  InspectRelay& operator=(const InspectRelay&) = delete;

  // `reply` gets what becomes known of each other rank, within the patience; of one whose answer comes after all, both.
  void ask(const std::string& question, std::int64_t patience_ns, std::function<void(InspectReply)> reply);
  void arrive(Arrival arrival);
  void answered(std::int64_t number, StatusOr<std::string> answer);
  void peer_down(Rank peer, const Status& cause);
  void tick();
  std::int64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  enum class Known : std::uint8_t { kNothing, kFailure, kAnswer };
  // A rank that was asked, with its subtree.
  struct Asked {
    std::int64_t patience_ns = 0, deadline_ns = 0;
    bool lost = false;              // its children were asked in its place; what it still says is taken
    bool fetching = false;
    std::deque<Arrival> waiting{};  // to be fetched
  };
  // A question that passes through here.
  struct Open {
    std::int64_t number = 0;
    RankTree tree;
    std::string question;
    std::int64_t patience_ns = 0, deadline_ns = 0;
    Rank from;                                        // who is told, by his ticket; this rank itself: `reply`
    std::int64_t ticket = 0;
    std::function<void(InspectReply)> reply{};
    std::int64_t job = 0;                             // that computes this rank's answer
    std::vector<Known> known{};                       // by rank
    std::int64_t missing = 0;                         // ranks of this one's subtree of which nothing is known
    std::map<Rank, Asked> asked{};
    std::vector<InspectReply> ready{};                // to be sent up
    std::size_t ready_bytes = 0;
  };

  void refuse() { refused_.fetch_add(1, std::memory_order_relaxed); }
  Known& known(Open& open, Rank rank) { return open.known[static_cast<std::size_t>(rank.value)]; }
  Open* find(std::int64_t number);
  Open& begin(Open open);
  void take_question(Rank from, const InspectHeader& header, std::span<const std::byte> question, bool has_bulk);
  void take_replies(Arrival arrival, const InspectHeader& header);
  void fetch_next(Open& open, Rank child);
  void fetched(std::int64_t number, Rank child, std::span<const std::byte> bytes, const Status& status);
  void ask_child(Open& open, Rank child, std::int64_t now_ns);
  // Nothing more is expected of `child`: it is reported, if nothing is known of it, and asked around.
  void lose(Open& open, Rank child, const Status& why);
  void learn(Open& open, InspectReply reply);
  void send_up(Open& open);
  // Ends it if everything is known.
  void settle(Open& open);
  void end(Open& open);
  void release(Rank peer);

  Transport& transport_;
  const Clock& clock_;
  Host& host_;
  std::map<std::int64_t, Open> open_;  // by number
  std::int64_t numbers_ = 0;
  std::map<Rank, Status> down_;        // for good
  std::map<Rank, int> held_for_;       // questions of a peer that are open, and frames that it has not taken
  std::atomic<std::int64_t> refused_{0};
};

// "0.8 s"
std::string in_seconds(std::int64_t ns);

}  // namespace troupe::comm
