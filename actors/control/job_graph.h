// One process's part of a program that is an actor graph over several: its actors, its edges to those elsewhere, and one end for all.
//
//   JobGraph graph(transport);
//   auto& counter = graph.system().add<Counter>("counter");
//   connect(counter.numbers, graph.far().in<Number>(Rank(1), "numbers"), {.credits = 2});
//   status = graph.run();
//
// finish_job() by any actor of any process ends the job everywhere: the actors of all processes are asked to stop. So does the first
// failure, with its cause. Meanwhile a launcher is told what this process's actors do (runtime/trace/state_file.h), for the report if it dies.
//
// be_inspectable() lets `troupe inspect` see it; then it also says by itself, on stderr, when nothing goes on (actors/inspect/stall_watch.h).
//
// Threads: one makes, runs and destroys; lost by any. Owns: System, edges and their stream, not the transport, which it starts and stops.
// Errors: run gives the first failure of the job, wherever it was: a peer that is gone is named with its first cause.
// Limits: takes the transport's channels of actors, edges and collectives. With several processes it is finish_job() that ends the job: an
//         actor that stops is just one less.
// Invariants: JobGraph.EndsEverywhereWhenAnyActorFinishes, JobGraph.FailsEverywhereWithTheFirstCause.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>

#include "actors/control/far_edge.h"
#include "actors/inspect/inspector.h"
#include "comm/collective/engine.h"
#include "comm/transport.h"
#include "runtime/actor/system.h"

namespace troupe::actors {

class JobGraph {
 public:
  // `transport` is null where the job has one process. `end_within`: how long the others may take to stop after this process has.
  explicit JobGraph(comm::Transport* transport, actor::System::Options options = {},
                    std::chrono::nanoseconds end_within = std::chrono::seconds(10));
  ~JobGraph();

  actor::System& system() { return *system_; }
  // A bug where the job has one process.
  FarEdges& far();

  // Before run(), in all processes: `troupe jobs` and `troupe inspect` find the job by `id` (comm::JobWorld::job_id). While run() runs.
  // `key`: its inspection_key; without, nobody can tell its actors anything where there are several processes.
  // Where no actor here has handled a message for `stall_after` and some wait for others, who waits for whom is written to stderr, once.
  void be_inspectable(const std::string& id, const std::string& key = {}, std::chrono::nanoseconds stall_after = std::chrono::seconds(30));

  // Until all actors of all processes have stopped.
  Status run();
  // From any thread, until run has returned: somebody else than the transport has heard that a process is gone.
  void lost(Rank rank, const Status& cause);

 private:
  class End;
  void tell_the_others();
  StatusOr<actor::Controlled> control(actor::Control what, const std::string& actor);

  comm::Transport* const transport_;
  const std::chrono::nanoseconds end_within_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<comm::CollectiveEngine> engine_;
  std::unique_ptr<actor::System> system_;
  std::unique_ptr<FarEdges> far_;
  actor::Ref end_;
  std::mutex starting_;  // guards what follows: somebody may want to tell an actor something before run()
  bool started_ = false;
  std::unique_ptr<Inspector> inspector_;
  std::chrono::nanoseconds stall_after_{};
};

}  // namespace troupe::actors
