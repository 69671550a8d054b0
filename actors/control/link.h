// Joins the actors of this process to those of others: a Ref to an actor elsewhere, and a name under which others reach ours.
//
// A Ref from remote() is that of a local actor that stands for the one elsewhere: it turns each message into a frame on the transport's
// control lane. Messages from one process to one actor arrive in the order in which they were sent. Only what fields.h lists can travel;
// anything else is a dead letter of the stand-in and fails it. What does not fit a frame's header goes as its bulk; what the same process
// sends after it waits until that is here. WIRE.md has the bytes.
//
// Threads: expose and remote before the System and the transport start. Owns: nothing; the transport outlives it, and stops before it dies.
// Errors: a frame for a name that is not exposed, or that is no message, is counted and said once; the peer is another build or broken.
// A peer that goes down is told to `watcher` as PeerWentDown; messages to it are lost, as those to any actor that has ended.
// A message of more than kMessageBytesMost fails the stand-in with kResourceExhausted, which names both sizes; it does not leave.
// Limits: kMessageBytesMost for a message's fields, kNameBytesMost for a name; a status's text is cut to kStatusTextBytesMost (fields.h).
// Invariants: every listed message comes back as it was (LinkTest.BringsEveryMessageAsItWas), of any size
// (LinkTest.BringsMessagesOfEverySizeInOrder).
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/protocol.h"
#include "comm/transport.h"
#include "runtime/actor/system.h"

namespace troupe::actors {

class Link {
 public:
  static constexpr std::size_t kMessageBytesMost = 16 << 20;
  static constexpr std::size_t kNameBytesMost = 256;

  // Takes the transport's channel of actors.
  explicit Link(comm::Transport& transport);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  void expose(const std::string& name, actor::Ref actor);
  // Called whenever a message comes that ends the job here, or asks for its end, before its actor gets it. Set before the transport starts; on its
  // progress thread.
  void before_an_end(std::function<void()> call) { before_an_end_ = std::move(call); }
  actor::Ref remote(actor::System& system, Rank rank, const std::string& name);
  std::int64_t refused() const { return refused_.load(); }

 private:
  struct Waiting {
    std::uint16_t type = 0;
    actor::Ref to;
    std::vector<std::byte> fields;
    bool here = false;  // fields are, not only the place for them
  };
  void arrive(comm::Arrival arrival);
  void came(Rank from, Waiting& message, const Status& fetched);
  void give(Rank from, std::uint16_t type, std::span<const std::byte> fields, const actor::Ref& to);
  void refuse(Rank from);

  comm::Transport& transport_;
  std::map<std::string, actor::Ref> exposed_;
  std::function<void()> before_an_end_;
  // By sender, in their order: from a long one that is not here yet. Shared with its fetch. Of the progress thread.
  std::map<Rank, std::deque<std::shared_ptr<Waiting>>> waiting_;
  std::atomic<std::int64_t> refused_{0};
};

}  // namespace troupe::actors
