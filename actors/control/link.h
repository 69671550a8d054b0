// Joins the actors of this process to those of others: a Ref to an actor elsewhere, and a name under which others reach ours.
//
// A Ref from remote() is that of a local actor that stands for the one elsewhere: it turns each message into a frame on the transport's
// control lane. Messages from one process to one actor arrive in the order in which they were sent. Only what fields.h lists can travel;
// anything else is a dead letter of the stand-in and fails it.
//
// Threads: expose and remote before the System and the transport start. Owns: nothing; the transport outlives it.
// Errors: a frame for a name that is not exposed, or that is no message, is counted and said once; the peer is another build or broken.
// A peer that goes down is told to `watcher` as PeerWentDown; messages to it are lost, as those to any actor that has ended.
// Invariant: every listed message comes back as it was (Link.BringsEveryMessageAsItWas).
#pragma once

#include <map>
#include <string>

#include "actors/protocol.h"
#include "comm/transport.h"
#include "runtime/actor/system.h"

namespace troupe::actors {

class Link {
 public:
  // Takes the transport's channel of actors.
  explicit Link(comm::Transport& transport);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  void expose(const std::string& name, actor::Ref actor);
  actor::Ref remote(actor::System& system, Rank rank, const std::string& name);
  std::int64_t refused() const { return refused_.load(); }

 private:
  void arrive(const comm::Arrival& arrival);

  comm::Transport& transport_;
  std::map<std::string, actor::Ref> exposed_;
  std::atomic<std::int64_t> refused_{0};
};

}  // namespace troupe::actors
