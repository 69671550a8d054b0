// A set of actors and what runs them. Build (add, connect), start, wait, shut down.
//
// Threads: one thread builds, starts, waits and destroys; probes() by any; control() and end_pauses() by any from start() to the end; to pause an
// actor may take some milliseconds, until it has heeded that.
// Owns: the actors, until its own end; they are destroyed in the reverse order of add(). Refs and Credits may
// outlive it. Errors: wait() gives the first failure with the chain of those that followed; shutdown() gives
// kDeadlineExceeded and names who blocks it. A System whose actors cannot be stopped within stop_deadline is
// a bug (a handler blocks). control(): kNotFound, kFailedPrecondition. A paused actor hears of nothing, also not of a Down, but an end of
// the job ends all pauses (PauseSystem.AFailureEndsThePauses); Downs wait with the other messages (PauseSim.NoDownIsLostWhoeverIsPaused). Who is
// said to be paused takes nothing (PauseSystem.OnceItIsSaidToBePausedNothingOfItRuns). Limits: a turn handles at most max_messages_per_turn messages before the thread
// takes another actor.
#pragma once

#include <chrono>
#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "runtime/actor/actor.h"
#include "runtime/actor/edge.h"
#include "runtime/trace/registry.h"

namespace troupe::actor {

namespace detail {
class SystemCore;
}

// What one actor can be told from outside. It heeds that between two messages: in a handler, when that ends.
enum class Control { kPause, kResume, kStep };
struct Controlled {
  std::string text;     // what comes of it, for people
  trace::ActorRow row;  // the actor after it was told
};

class System {
 public:
  struct Options {
    int threads = 2;
    int max_messages_per_turn = 64;
    // No threads at all: a SimWorld (sim_world.h) runs the actors one message at a time.
    bool deterministic = false;
    // Time of the deterministic world; outlives the System.
    const Clock* clock = nullptr;
    // After the first failure, and in the destructor, how long the actors may take to stop.
    std::chrono::nanoseconds stop_deadline = std::chrono::seconds(10);
    // The first failure stops all actors; otherwise the others go on.
    bool stop_on_failure = true;
  };
  System() : System(Options{}) {}
  explicit System(Options options);
  ~System();
  System(const System&) = delete;
  System& operator=(const System&) = delete;

  // Build phase. Names are unique.
  template <std::derived_from<Actor> A, class... Args>
  A& add(std::string name, Args&&... args) {
    auto owned = std::make_unique<A>(std::forward<Args>(args)...);
    A& actor = *owned;
    adopt(std::move(name), std::move(owned));
    return actor;
  }
  // Ends the build phase: all actors get started().
  void start();

  // Until all actors have stopped, or the job has failed and they have been stopped. Real world only.
  Status wait();
  // Asks all actors to stop, after what is in their mailboxes, also the paused ones. Messages sent to them later are dead letters.
  Status shutdown(std::chrono::nanoseconds deadline);

  // The outcome so far: ok, or the first failure and its chain.
  Status outcome() const;
  // How many messages of edges the mailbox can hold: its inbound credits plus a credit message per outbound
  // edge. What else is sent to it comes on top: one per (sender, kind).
  std::int64_t mailbox_bound(const Ref& actor) const;
  // Empty if there is no such actor.
  Ref find(const std::string& name) const;
  trace::ProbeRegistry& probes();

  // Pause: takes no message until it is told to go on; if its handler does not end soon, the text says so and the row is not kPaused. Step: takes one, now or the next that comes, and stays paused.
  StatusOr<Controlled> control(Control what, const std::string& actor);
  // All actors go on and none is paused any more: the job comes to its end.
  void end_pauses();

 private:
  friend class SimWorld;
  void adopt(std::string name, std::unique_ptr<Actor> actor);
  std::unique_ptr<detail::SystemCore> core_;
};

}  // namespace troupe::actor
