#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "actors/inspect/inspector.h"
#include "actors/inspect/stall_watch.h"
#include "actors/train/local_replicas.h"
#include "actors/train/peak.h"
#include "comm/world/job_world.h"
#include "kernels/cpu/cpu.h"
#include "runtime/base/log.h"
#include "runtime/trace/state_file.h"
#include "tools/troupe/commands.h"
#include "tools/troupe/own_dashboard.h"
#include "tools/troupe/signal_watch.h"
#include "tools/troupe/text_by_rank.h"

namespace troupe::tool {
namespace {

// This machine's share for one rank, with `job`'s settings.
plan::Cluster cluster_of(const comm::Place& place, const plan::JobConfig& job) {
  plan::Cluster cluster = plan::Cluster::of_this_machine(job);
  const int ranks_here = place.world > 1 ? place.local_world : std::max(1, job.parallelism.data_parallel);
  if (place.world > 1) cluster.processes = place.world;
  if (job.device.threads == 0) cluster.threads = std::max(1, cluster.threads / ranks_here);
  cluster.memory_bytes /= ranks_here;
  return cluster;
}

actors::Inspector::Setup inspected(const comm::JobWorld& job_world, const Planned& planned, const actors::LocalReplicas& ranks) {
  actors::Inspector::Setup setup{.job = job_world.job_id(), .rank = job_world.place().rank.value, .world = job_world.place().world,
                                 .output = std::filesystem::absolute(planned.job.job.output).lexically_normal()};
  for (const auto& rank : ranks.jobs()) {
    setup.ranks.push_back(rank->sources());
    setup.ranks.back().restarts = job_world.place().restarts;
    setup.ranks.back().config = plan::resolved(planned.job);
    setup.ranks.back().plan = plan::describe(planned.plan, planned.cluster);
  }
  setup.key = job_world.inspection_key();
  if (setup.world > 1) setup.transport = job_world.transports().front();
  setup.world = std::max(setup.world, static_cast<int>(setup.ranks.size()));
  return setup;
}

// Where this job is to be looked into besides its sockets; empty: nowhere.
StatusOr<std::string> inspect_address(const plan::JobConfig& job) {
  const char* variable = std::getenv("TROUPE_INSPECT_LISTEN");
  const bool is_said_there = variable != nullptr && *variable != '\0';
  const std::string address = is_said_there ? variable : job.job.inspect_listen;
  if (address.empty()) return address;
  if (const auto place = actors::http_place(address); !place.ok())
    return absl::InvalidArgumentError(absl::StrCat(is_said_there ? "TROUPE_INSPECT_LISTEN: " : "job.inspect_listen: ", std::string(place.status().message())));
  return address;
}

// Rank 0 alone: the ledger is there, and it asks the others.
actors::StallWatch::Setup watched(actors::Inspector& inspector, const plan::JobConfig& job, const actors::LocalReplicas& ranks) {
  auto& leader = *ranks.jobs().front();
  actors::StallWatch::Setup setup{.inspector = inspector, .factor = job.job.stall_factor, .least_s = job.job.stall_min_s, .last_done = leader.resumed_at(),
                                  .folder = job.job.output, .exit_within_s = job.limits.shutdown_seconds + 10};
  for (const auto& rank : ranks.jobs()) setup.probes.push_back(&rank->system().probes());
  if (job.job.on_stall == plan::OnStall::kStop) setup.stop = [&leader](const Status& why) { leader.give_up(why); };
  return setup;
}

Status train_in(comm::JobWorld& job_world, const ConfigArguments& arguments, SignalWatch& signals) {
  Planned planned;
  TROUPE_ASSIGN_OR_RETURN(planned.job, plan::load_job_config(arguments.config, arguments.overrides));
  TROUPE_ASSIGN_OR_RETURN(const std::string listen_at, inspect_address(planned.job));
  planned.cluster = cluster_of(job_world.place(), planned.job);
  TROUPE_ASSIGN_OR_RETURN(planned.plan, plan::make_plan(planned.job, planned.cluster, kernels::cpu::table()));
  TROUPE_RETURN_IF_ERROR(plan::ready_to_train(planned.job));
  TROUPE_RETURN_IF_ERROR(plan::fits(planned.plan, planned.cluster));
  TROUPE_RETURN_IF_ERROR(job_world.enter({.ranks = planned.plan.placement.world(),
                                          .heartbeat_timeout_s = planned.job.job.heartbeat_timeout_s,
                                          .join_timeout_s = planned.job.job.join_timeout_s,
                                          .cancel = signals.cancel()}));
  TROUPE_RETURN_IF_ERROR(signals.met(job_world));

  const SteadyClock clock;
  auto world = actors::World::on_this_machine(kernels::cpu::table(), clock);
  actors::JobOptions options;
  if (isatty(STDERR_FILENO)) options.console = actors::Reporter::Console::kBar;
  if (job_world.leads()) {
    options.peak_flops_per_s = actors::measure_matmul_peak(world.kernels, planned.plan.geometry.compute, planned.plan.threads);
  }
  world.node_of = job_world.node_of();
  if (job_world.place().world > 1) {
    world.from_leader = [&](const std::string& what, const std::string& mine) { return job_world.from_leader(what, mine); };
    world.all_ok = [&](const std::string& what, const Status& here) { return job_world.all_ok(what, here); };
  }
  actors::StallWatch stalls;  // outlives the ranks: they may not come to their end
  options.on_step = [&stalls](const actors::StepReport& step) { stalls.step_closed(step.step, step.step_ns); };
  TROUPE_ASSIGN_OR_RETURN(const auto ranks, actors::LocalReplicas::create(planned.job, planned.plan, world, options, job_world.transports()));
  signals.watch(*ranks);
  if (job_world.leads()) {  // the folder is ours, the memory is there
    log_info(absl::StrCat(planned.plan.parameters, " parameters, ", planned.plan.replicas, " replica(s) of ", planned.plan.stages.size(),
                          " stage(s) in ", job_world.place().world, " process(es), ", planned.plan.threads, " threads a rank, kernels ",
                          world.kernels.name, ", output ", planned.job.job.output));
    log_info(absl::StrCat("mfu = flops of a step / ranks / step_s / ", static_cast<std::int64_t>(options.peak_flops_per_s / 1e9),
                          " GFLOP/s, the best matrix product measured now"));
  }
  actors::Inspector inspector(inspected(job_world, planned, *ranks));
  if (job_world.leads() && !listen_at.empty()) {
    TROUPE_RETURN_IF_ERROR(inspector.listen(listen_at));
    log_info(absl::StrCat("looked into at ", listen_at, inspector.port() > 0 && listen_at.ends_with(":0") ? absl::StrCat(", which is port ", inspector.port()) : ""));
  }
  ranks->jobs().front()->on_peer_down([&inspector](Rank rank, const Status& cause) { inspector.peer_down(rank, cause); });
  const trace::StateFile state([&ranks] {
    return text_by_rank(*ranks, [&](const trace::Snapshot& snapshot) { return trace::state_text(snapshot, trace::kStateBytesMost / ranks->jobs().size()); });
  });
  OwnDashboard dashboard(job_world.job_id(), job_world.leads() ? arguments.dashboard : "");
  ranks->start();
  if (job_world.leads()) stalls.start(watched(inspector, planned.job, *ranks));
  job_world.watch([&](Rank rank, const Status& cause) {
    inspector.lost(rank, cause);
    ranks->jobs().front()->peer_went_down(rank, cause);
  });
  const Status status = ranks->wait();
  stalls.end();
  dashboard.end(status);
  signals.end();
  job_world.end_watch();
  return status;
}

}  // namespace

StatusOr<int> train(const ConfigArguments& arguments) {
  SignalWatch signals;
  TROUPE_ASSIGN_OR_RETURN(const auto job_world, comm::JobWorld::of_this_process());
  const Status status = train_in(*job_world, arguments, signals);
  signals.end();
  if (const Status left = job_world->leave(status); !left.ok()) log_warning(std::string(left.message()));
  if (absl::IsCancelled(status) && signals.early() != 0) return 128 + signals.early();  // it has been said
  TROUPE_RETURN_IF_ERROR(status);
  return 0;
}

}  // namespace troupe::tool
