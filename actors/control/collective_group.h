// The actor in front of a group of ranks: asks the engine for collectives and tells who asked when they are done.
//
// Acts:  CollectiveRequested -> the operation starts; its end -> CollectiveDone to the asker. Several are in flight at once.
// Fails: when the group fails: a member is gone, or members asked for different things. The cause names them.
// Says:  waiting for the oldest operation, by its name.
// Threads: an actor's; the engine's progress thread reaches it by message only. Owns: nothing: engine, transport and the collective's memory are
//        others' and stay until CollectiveDone, or until the transport has stopped. Errors: an operation id that is open already is a bug.
// Shapes, types and units: comm/collective/collective.h.
#pragma once

#include <map>
#include <string>

#include "comm/collective/engine.h"
#include "runtime/actor/actor.h"

namespace troupe::actors {

// The memory of `collective` is ready to be read and written, and stays so until CollectiveDone.
struct CollectiveRequested {
  comm::OperationId operation;
  comm::Collective collective;
  actor::Ref asker;
};
struct CollectiveDone {
  comm::OperationId operation;
};

class CollectiveGroup : public actor::Actor {
 public:
  CollectiveGroup(comm::CollectiveEngine& engine, comm::GroupId group);

 private:
  struct Ended {
    comm::OperationId operation;
    Status result;
  };
  struct Open {
    trace::Name what;
    actor::Ref asker;
  };
  void requested(CollectiveRequested message);
  void ended(Ended message);
  void show_state();

  comm::CollectiveEngine& engine_;
  const comm::GroupId group_;
  std::map<comm::OperationId, Open> open_;
  std::map<std::string, trace::Name> names_;  // what operations have been for so far: a few, each made once
};

}  // namespace troupe::actors
