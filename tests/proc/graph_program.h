// The main of a test's program that runs an actor graph in each process of a job, until it is ended.
#pragma once

#include <cstdio>
#include <functional>
#include <string>

#include "actors/control/job_graph.h"
#include "comm/world/job_world.h"

namespace troupe::test {

// Runs a graph that is built, and tells it which ranks are lost meanwhile.
inline Status run_watched(comm::JobWorld& world, actors::JobGraph& graph) {
  world.watch([&](Rank rank, const Status& cause) { graph.lost(rank, cause); });
  Status status = graph.run();
  world.end_watch();
  return status;
}

// The exit code. `run` enters the world that this process was started in.
inline int graph_program(const char* name, const std::function<Status(comm::JobWorld&)>& run) {
  auto world = comm::JobWorld::of_this_process();
  Status status = world.status();
  if (status.ok()) {
    status = run(**world);
    (*world)->leave(status).IgnoreError();
  }
  if (!status.ok()) std::fprintf(stderr, "%s: %s\n", name, std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace troupe::test
