// Inside of runtime/actor: what a System consists of, and what stays of an actor as long as anybody knows it.
// No CAF type.
#pragma once

#include <atomic>
#include <condition_variable>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/actor/system.h"

namespace troupe::actor {

class Supervisor;

namespace detail {

class Host;
class SystemCore;
class DownToken;
class RequestTracker;

// The lasting part of an actor. `core` is set by System::add, `host` by System::start; `core` and `actor` are
// cleared when the System is gone, by which time the actor has ended.
class Cell {
 public:
  explicit Cell(Actor& its_actor);
  ~Cell();
  const std::string& name() const { return probe->name(); }

  const std::shared_ptr<trace::Probe> probe = std::make_shared<trace::Probe>("unnamed", trace::Ticks());
  Actor* actor;
  SystemCore* core = nullptr;
  Host* host = nullptr;
  std::shared_ptr<void> keeps_host;
  std::int64_t inbound_credits = 0, outbound_edges = 0;  // fixed at start
  // The actor's own, in its context only:
  std::vector<DownToken> watchers;
  std::vector<std::shared_ptr<RequestTracker>> open_requests;
  std::uint64_t next_request = 1;
  // Written by the actor before `ended`:
  Status cause;
  std::vector<std::string> chain;
  std::atomic<bool> ended{false};
};

// What a Host (caf_host.h) does for its Actor, inside a handler.
bool in_handler(const Cell& cell);
void end_actor(Cell& cell, Status cause, std::vector<std::string> chain);
void post_parcel_later(Cell& cell, const Parcel& parcel, std::chrono::nanoseconds delay);
// Of a parked actor, once. By any thread.
void wake(Cell& cell);

// CAF's actor system, in one of two set-ups. With threads: `sharing`, a finite number of messages a turn.
// Deterministic: no threads, whoever holds it runs the actors, a message at a time.
class CafWorld {
 public:
  explicit CafWorld(const System::Options& options);
  ~CafWorld();
  void spawn(Cell& cell);

  // Deterministic only. Actors with something to do, in the order in which they became runnable.
  std::size_t runnable() const;
  std::uint64_t run(
      std::size_t which);  // one message of that actor; gives the actor's number, in the order of spawn
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  std::int64_t next_timer_in_ns() const;  // from now; kNever without timers
  void advance(std::int64_t by_ns);       // timers that are due put their messages into the mailboxes
  void drop_timers();

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

// What the thread that waits for the job sees of it. The one lock that a handler takes, the supervisor's, for
// a few stores: it is the bridge to a thread that may block.
struct Outcome {
  std::mutex mutex;
  std::condition_variable changed;
  int alive = 0;  // without the supervisor
  bool supervisor_alive = false;
  bool failed = false;
  Status result;  // of the job: of the first failure, or what finish_job gave
};

class SystemCore {
 public:
  SystemCore(System::Options the_options);
  ~SystemCore();

  void adopt(std::string name, std::unique_ptr<Actor> actor);
  void start();
  StatusOr<Controlled> control(Control what, const std::string& actor);
  void end_pauses();
  // Ends all pauses, posts `StopRequested` (orderly) or `StopNow` to every living actor but the supervisor.
  void ask_all_to_stop(bool now);
  // Until all have ended or the time is over; whether all have.
  bool wait_until_all_ended(std::chrono::nanoseconds deadline);
  // "'a' (handling Foo for 1.2 s, mailbox 3), 'b' ..." of those that live.
  std::string who_is_alive() const;
  void close();  // ends everything; a bug if something cannot be ended

  const System::Options options;
  trace::ProbeRegistry probes;
  Outcome outcome;
  std::vector<std::unique_ptr<Actor>> actors;  // in the order of add()
  std::vector<std::shared_ptr<Cell>> cells;    // the same order
  std::map<std::string, Cell*> by_name;
  Supervisor* supervisor = nullptr;  // one of `actors`, the first
  std::unique_ptr<CafWorld> caf;
  bool started = false;
};

// Messages every actor understands.
struct StartRequested {};  // by System::start, the first message
struct StopRequested {};   // orderly, behind what is in the mailbox
struct StopNow {};         // urgent

// Lives in the mailbox of the monitored actor, then in its host; tells the watcher when it dies, wherever
// that is.
class DownToken {
 public:
  DownToken(Ref watcher, Ref target) : watcher_(std::move(watcher)), target_(std::move(target)) {}
  DownToken(DownToken&& other) noexcept
      : watcher_(std::move(other.watcher_)), target_(std::move(other.target_)) {
    other.watcher_ = Ref();
  }
  DownToken& operator=(DownToken&&) = delete;
  ~DownToken();

 private:
  Ref watcher_, target_;
};
struct MonitorRequested {
  DownToken token;
};

// To the sender of an edge.
struct CreditReturned {
  std::shared_ptr<Edge> edge;
};

// The Down of an actor that has ended.
Down down_of(const Ref& actor);

}  // namespace detail
}  // namespace troupe::actor
