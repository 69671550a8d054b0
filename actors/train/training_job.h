// One rank's part of a training job: everything a plan says of it, built, connected, run.
//
// Each rank holds a replica of the model, or some of its stages (actors/plan/placement.h). Rank 0 has the ledger, the leading checkpoint
// writer and the reporter too; the others reach the ledger by the link.
// The same actors run on real threads and streams or in the deterministic world: what differs comes in through World.
// Threads: one builds, runs and destroys; request_stop by any.
// Owns: pool, streams, actors. Errors: a folder in use, a checkpoint that does not fit, a corpus that cannot be read, before anything is
// changed; run() gives the first failure with its chain.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/control/far_edge.h"
#include "actors/control/link.h"
#include "actors/inspect/rank_report.h"
#include "actors/plan/plan.h"
#include "actors/plan/shard_memory.h"
#include "actors/protocol.h"
#include "actors/train/assignment_record.h"
#include "actors/train/reporter.h"
#include "actors/train/stage.h"
#include "actors/train/whole_weights.h"
#include "comm/collective/engine.h"
#include "comm/slices/slices.h"
#include "models/checkpoint/disk.h"
#include "models/checkpoint/run_lock.h"
#include "models/data/sample_source.h"
#include "runtime/actor/system.h"
#include "runtime/trace/training_probe.h"

namespace troupe::actors {

class DeviceLoop;

// What stands behind the seams.
struct World {
  const kernels::Table& kernels;
  const Clock& clock;
  actor::System::Options system;
  // A stream of that many compute threads; `scratch` only for the compute stream.
  std::function<std::unique_ptr<device::Stream>(std::string name, int threads, device::Buffer scratch)> make_stream;
  int max_operations = 256;          // of the device loop
  // To the other ranks, not started yet; null where there is one rank. The job starts it, and stops it if it fails.
  comm::Transport* transport = nullptr;
  // By rank: ranks of one machine have a number in common; sums and pulled weights go between machines once. Empty: all are on one.
  std::vector<int> node_of{};
  // How the ranks agree before the job starts: each is called by all of them, and waits for the others. Empty where all are in this process.
  // What rank 0 says.
  std::function<StatusOr<std::string>(const std::string& what, const std::string& mine)> from_leader{};
  // Ok if it is so at all ranks; else an error, the same at all, that says where it is not.
  std::function<Status(const std::string& what, const Status& here)> all_ok{};

  static World on_this_machine(const kernels::Table& kernels, const Clock& clock);
};

struct JobOptions {
  bool save = true;
  Reporter::Console console = Reporter::Console::kLines;
  double peak_flops_per_s = 0;       // what MFU is a share of; 0 leaves it at 0
  // Called with every step's report, on an actor's thread: must not block.
  std::function<void(const StepReport&)> on_step;
  StepId hold_after = StepId(INT64_MAX);  // see TrainingJob::hold_after
};

// Facts of a finished or running job, for reports, benchmarks and tests.
struct JobSummary {
  std::int64_t pool_takes = 0, pool_peak_bytes = 0, pool_used_bytes = 0;
  std::int64_t compute_waited_ns = 0;
  std::map<std::string, std::int64_t> pool_bytes_by_term;  // now
};

class TrainingJob {
 public:
  static StatusOr<std::unique_ptr<TrainingJob>> create(plan::JobConfig job, plan::Plan plan, const World& world, const JobOptions& options);
  ~TrainingJob();

  // Until the last step, a stop, or a failure. Real world only, as wait().
  Status run();
  // run() in two parts, for whoever does something between the steps; the deterministic world drives system() instead of wait().
  void start();
  Status wait();
  // The last thing that wait() waits for: calls back when the other ranks have come to their end too, or one has gone before. For the
  // deterministic world, once the actors have ended well; it then stops the transport.
  void meet_others(comm::Completion met);
  // The job goes on up to and with `step` and holds there.
  void hold_after(StepId step);
  // From any thread, at any time; a stop before start() makes it end as soon as it has begun. No actor here is paused any more.
  void request_stop(const std::string& reason);

  // What this rank does, for who looks inside. From any thread.
  RankSources sources() {
    return {.rank = rank_, .probes = &system_->probes(), .engine = engine_.get(), .training = seen_.get(),
            .control = [this](actor::Control what, const std::string& actor) { return control(what, actor); }};
  }
  // One actor of this rank pauses, goes on or takes a step. From any thread, at any time.
  StatusOr<actor::Controlled> control(actor::Control what, const std::string& actor);
  // From any thread after start(): somebody else than the transport has heard that a process of the job is gone. The job fails.
  void peer_went_down(Rank rank, const Status& cause);

  // From any thread after start(): the job ends with `cause`.
  void give_up(const Status& cause) { peer_went_down(rank_, cause); }
  // Before start(). Called on the transport's progress thread, until wait() has returned.
  void on_peer_down(std::function<void(Rank, const Status& cause)> tell) { tell_peer_down_ = std::move(tell); }

  StepId resumed_at() const { return start_.step; }
  const plan::Plan& plan() const { return plan_; }
  actor::System& system() { return *system_; }
  JobSummary summary() const;
  // Master parameters of a block, for tests; between run()s only.
  const plan::ShardMemory& shard(BlockIndex block) const { return shards_[shard_at(block)]; }

 private:
  TrainingJob(plan::JobConfig job, plan::Plan plan, const World& world, const JobOptions& options);
  // Where a block is in shards_; one of this process.
  std::size_t shard_at(BlockIndex block) const;
  plan::ShardShare share() const { return plan_.share(replica_number_); }
  bool evaluates() const { return plan_.evaluation_batches > 0; }
  bool leads() const { return rank_.value == 0; }
  std::uint64_t seed() const { return static_cast<std::uint64_t>(job_.job.seed); }
  std::string metrics_path() const { return job_.job.output + "/metrics.jsonl"; }
  std::string tensorboard_folder() const;
  Status open_folder();
  Status see_one_folder() const;
  Status open_data();
  Status open_record();
  void take_memory();
  Status resume();
  StatusOr<std::string> newest_checkpoint() const;
  Status load(const std::string& folder, std::string& config);

  // training_job_build.cc
  static constexpr comm::GroupId kEverybody{0};
  struct Actors;
  void build();
  void make_streams();
  void join_others(Actors& all);
  void add_shards(Actors& all);
  void add_stages(Actors& all);
  void add_feeds(Actors& all);
  void add_leaders(Actors& all);
  void expose(const Actors& all);
  void connect(const Actors& all);
  BlockTensorsOfStage resident_tensors(BlockIndex block) const;
  std::vector<Rank> group_ranks() const;
  std::vector<Rank> machine_mates() const;
  WholeWeights& add_whole_weights(const actor::Ref& device);
  WeightRooms::Fetch fetches_weights() const;
  std::function<void(StepId)> tells_written(BlockIndex block, const WholeWeights* whole) const;
  void add_rooms(std::size_t stage, const actor::Ref& device, Stage::Setup& setup);

  const plan::JobConfig job_;
  const plan::Plan plan_;
  const World world_;
  const JobOptions options_;
  const std::int64_t begun_ns_;
  const Rank rank_;
  const int replica_number_, part_;  // of the replica's stages
  std::optional<checkpoint::RunLock> lock_;
  RunState start_;
  std::optional<data::SampleSource> training_data_, validation_data_;
  std::optional<AssignmentRecord> record_;   // to be replayed

  // In order of life: what is below uses what is above.
  std::unique_ptr<device::BufferPool> pool_;
  std::vector<plan::StageMemory> stages_;    // of this process
  std::vector<plan::ShardMemory> shards_;    // of its blocks, in order; last a copy of the embedding, where the plan says so
  std::unique_ptr<checkpoint::Disk> disk_;
  std::unique_ptr<comm::CollectiveEngine> engine_;
  std::unique_ptr<Link> link_;
  std::unique_ptr<comm::Slices> slices_;     // weights whose updates are split
  std::unique_ptr<FarEdges> far_;
  std::unique_ptr<trace::TrainingProbe> seen_;  // written by the ledger; where that is
  std::unique_ptr<actor::System> system_;
  std::unique_ptr<device::Stream> compute_, copy_, loader_, storage_, metrics_, terminal_, edges_;
  actor::Ref ledger_;                        // or what stands for it
  actor::Ref replica_;
  std::function<void(Rank, const Status&)> tell_peer_down_;

  std::mutex stop_mutex_;                    // guards what follows: a signal may come before run()
  bool started_ = false;
  std::optional<std::string> stop_reason_;
};

}  // namespace troupe::actors
