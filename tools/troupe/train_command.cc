#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <thread>

#include "absl/strings/str_cat.h"
#include "actors/train/local_replicas.h"
#include "actors/train/peak.h"
#include "actors/train/training_job.h"
#include "comm/world/job_world.h"
#include "kernels/cpu/cpu.h"
#include "runtime/base/log.h"
#include "runtime/trace/text.h"
#include "tools/troupe/commands.h"
#include "tools/troupe/stall_watch.h"
#include "tools/troupe/state_file.h"

namespace troupe::tool {
namespace {

// Turns SIGINT and SIGTERM into a stop after the current step; a second one ends the process at once. SIGUSR1 (Slurm's --signal=USR1@60) asks
// for the same stop, and never ends at once. SIGQUIT (Ctrl-\) prints what every
// actor does and waits for, and the run goes on. The signals are blocked before any
// other thread starts, so that only this one takes them.
class SignalWatch {
 public:
  SignalWatch() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    sigaddset(&signals_, SIGQUIT);
    sigaddset(&signals_, SIGUSR1);  // also our own wake-up, once ending_
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  }
  ~SignalWatch() { end(); }
  // Before the job dies: a signal that comes later finds nobody to stop.
  void end() {
    if (!thread_.joinable()) return;
    ending_ = true;
    pthread_kill(thread_.native_handle(), SIGUSR1);
    thread_.join();
  }
  void watch(actors::TrainingJob& job) {
    thread_ = std::thread([this, &job] {
      int asked = 0, signal = 0;
      while (sigwait(&signals_, &signal) == 0 && !ending_) {
        if (signal == SIGQUIT) {
          std::fputs(trace::to_text(job.system().probes().snapshot()).c_str(), stderr);
          continue;
        }
        if (signal == SIGUSR1) {
          job.request_stop("signal SIGUSR1");
          continue;
        }
        if (++asked > 1) _exit(128 + signal);
        job.request_stop(absl::StrCat("signal ", signal == SIGINT ? "SIGINT" : "SIGTERM"));
      }
    });
  }

 private:
  sigset_t signals_;
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

// This machine's share for one rank, with `job`'s settings.
plan::Cluster cluster_of(const comm::Place& place, const plan::JobConfig& job) {
  plan::Cluster cluster = plan::Cluster::of_this_machine(job);
  const int ranks_here = place.world > 1 ? place.local_world : std::max(1, job.parallelism.data_parallel);
  if (place.world > 1) cluster.processes = place.world;
  if (job.device.threads == 0) cluster.threads = std::max(1, cluster.threads / ranks_here);
  cluster.memory_bytes /= ranks_here;
  return cluster;
}

Status train_in(comm::JobWorld& job_world, const ConfigArguments& arguments, SignalWatch& signals) {
  Planned planned;
  TROUPE_ASSIGN_OR_RETURN(planned.job, plan::load_job_config(arguments.config, arguments.overrides));
  planned.cluster = cluster_of(job_world.place(), planned.job);
  TROUPE_ASSIGN_OR_RETURN(planned.plan, plan::make_plan(planned.job, planned.cluster, kernels::cpu::table()));
  TROUPE_RETURN_IF_ERROR(plan::ready_to_train(planned.job));
  TROUPE_RETURN_IF_ERROR(plan::fits(planned.plan, planned.cluster));
  TROUPE_RETURN_IF_ERROR(job_world.enter(planned.plan.placement.world(), planned.job.job.heartbeat_timeout_s));

  const SteadyClock clock;
  auto world = actors::World::on_this_machine(kernels::cpu::table(), clock);
  actors::JobOptions options;
  if (isatty(STDERR_FILENO)) options.console = actors::Reporter::Console::kBar;
  if (job_world.leads()) {
    options.peak_flops_per_s = actors::measure_matmul_peak(world.kernels, planned.plan.geometry.compute, planned.plan.threads);
  }
  const auto announce = [&] {  // the folder is ours, the memory is there
    if (!job_world.leads()) return;
    log_info(absl::StrCat(planned.plan.parameters, " parameters, ", planned.plan.replicas, " replica(s) of ", planned.plan.stages.size(),
                          " stage(s) in ", job_world.place().world, " process(es), ", planned.plan.threads, " threads a rank, kernels ",
                          world.kernels.name, ", output ", planned.job.job.output));
    log_info(absl::StrCat("mfu = flops of a step / ranks / step_s / ", static_cast<std::int64_t>(options.peak_flops_per_s / 1e9),
                          " GFLOP/s, the best matrix product measured now"));
  };
  if (job_world.transports().size() > 1) {
    TROUPE_ASSIGN_OR_RETURN(auto replicas, actors::LocalReplicas::create(planned.job, planned.plan, world, options, job_world.transports()));
    announce();
    signals.watch(replicas->leader());
    const StateFile state([&leader = replicas->leader()] { return leader.system().probes().snapshot(); });
    const Status status = replicas->run();
    signals.end();
    return status;
  }
  if (!job_world.transports().empty()) world.transport = job_world.transports().front();
  world.node_of = job_world.node_of();
  TROUPE_ASSIGN_OR_RETURN(auto job, actors::TrainingJob::create(planned.job, planned.plan, world, options));
  announce();
  job->start();
  signals.watch(*job);
  const StateFile state([&job = *job] { return job.system().probes().snapshot(); });
  const StallWatch stalls(*job);
  job_world.watch([&job = *job](Rank rank, const Status& cause) { job.peer_went_down(rank, cause); });
  const Status status = job->wait();
  signals.end();
  job_world.end_watch();
  return status;
}

}  // namespace

Status train(const ConfigArguments& arguments) {
  SignalWatch signals;
  TROUPE_ASSIGN_OR_RETURN(const auto job_world, comm::JobWorld::of_this_process());
  Status status = train_in(*job_world, arguments, signals);
  if (const Status left = job_world->leave(status); !left.ok()) log_warning(std::string(left.message()));
  return status;
}

}  // namespace troupe::tool
