#include "tests/sim/train/trial.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/cpu/cpu.h"
#include "runtime/base/rng.h"

namespace troupe::test {
namespace {

constexpr int kMaxOperations = 8;
constexpr std::int64_t kMaxEvents = 1'000'000;  // a trial takes some thousands

// A different, seeded time for each entry of each stream.
device::SimStream::Cost cost_of(std::uint64_t seed, std::string_view name) {
  std::int64_t scale_ns = 2'000;
  if (name == "storage") scale_ns = 3'000'000;  // a save lasts for some steps
  if (name == "copy") scale_ns = 50'000;
  const RandomStream random({.seed = seed, .use = name[0] * 256 + name[1]});
  return [random, scale_ns](std::uint64_t entry) { return static_cast<std::int64_t>(random.at(entry)) % scale_ns; };
}

// A notification takes time as well: reading a batch, writing a checkpoint.
class WithSlowNotifications final : public StreamDecorator {
 public:
  using StreamDecorator::StreamDecorator;
  void notify(device::Work then) override {
    inner().enqueue([](device::StreamContext&) {});
    inner().notify(std::move(then));
  }
};

// Control messages that the mailbox of `actor` may hold besides those of edges: one per (sender, kind).
std::int64_t control_bound(const std::string& actor, const JobShape& shape, int blocks, int max_operations, std::int64_t edge_bound) {
  const std::int64_t life = 3;                                                    // start, orderly stop, stop now
  const std::int64_t replicas = shape.world();                                    // their agents
  // Where replicas pull: a question, said again for each that finishes meanwhile.
  const std::int64_t asked = shape.pulls ? shape.pipeline + 2 : 0, pulls = shape.pulls ? 1 : 0;
  // One is answered at a time, but the answers of the first stage's process go to the others, which may be behind.
  const std::int64_t answered = shape.parts > 1 ? asked : pulls;
  if (actor == "assigner") return life + replicas * asked + 1;                    // its timer
  if (actor == "assigner@0") return life + asked;
  // RunTask per pass and shard, OperationCompleted; OpenGate for each room, for rooms shared by passes, for each block of a share's end
  if (actor == "device") return life + (3 + pulls) * shape.pipeline + blocks + max_operations + shape.pipeline * (6 + 3 * (shape.prefetch + 1)) + pulls * blocks;
  if (actor == "ledger") return life + (blocks + 4) * replicas + 3;               // norms; loss, fed, updated, evaluated; saved, written, stop
  if (actor == "replica") return life + 2 * blocks + 9 + replicas + asked + answered;  // norms, updates; what goes to and fro; peers that go
  if (actor == "replicas" || actor == "across-groups") return life + 4 * blocks;                              // asked and ended: gradient of two uses
  if (actor == "weights") return life + blocks + (3 + pulls) * shape.pipeline * (shape.prefetch + 1) + 2 * replicas;  // written; wanted; parts fetched
  if (actor == "both-uses") return life + 2;                                      // asked and ended
  if (absl::StartsWith(actor, "weights-")) return life + (shape.prefetch + 1) * (3 + 3 + replicas);  // wanted, left; parts fetched
  if (absl::StartsWith(actor, "gradients-")) return life + 3 + 4;                 // wanted by each pass; left
  if (actor == "checkpoint-writer") return life + blocks + 2 + replicas;          // SnapshotTaken; SaveRequested, WriteShard; ShardWritten
  if (actor == "reporter") return life + 1;                                       // StepClosed
  if (actor == "source" || actor == "evaluator") return life + 1 + edge_bound * 8 + answered + asked;  // OpenStep; BatchRead of each batch being read; assigned, computed
  if (absl::StartsWith(actor, "stage-")) return life + 3 + 2 * pulls;             // TaskDone of each pass; ShareEnded
  if (absl::StartsWith(actor, "shard-")) return life + 4 + 4 + 4;                 // gradients in rooms; decided, snapshot, TaskDone; sums
  if (absl::StartsWith(actor, "ledger@")) return life + blocks + 4;               // norms; loss, fed, updated, evaluated
  if (absl::StartsWith(actor, "replica@")) return life + 5 + answered;            // open, decided, evaluation, snapshot, ended, assigned
  if (absl::StartsWith(actor, "checkpoint-writer@")) return life + 2;
  if (absl::StrContains(actor, "@")) return life + 2 + 8;                         // an edge's far end: a word per slot; its failure
  return 1'000'000;                                                               // the supervisor: every end of an actor
}

}  // namespace

std::string small_config(const std::string& corpus, const std::string& output) {
  return absl::StrCat(R"(
[job]
output = ")", output, R"("
seed = 7
[device]
threads = 1
[model]
family = "llama"
vocab_size = 257
layers = 4
hidden = 16
heads = 2
kv_heads = 1
intermediate = 24
max_seq_len = 8
[data]
train = ")", corpus, R"("
[training]
steps = )", kSteps, R"(
seq_len = 8
micro_batch = 1
global_batch = 4
dtype = "fp32"
[optimizer]
lr = 0.01
[checkpoint]
interval = 1
)");
}

JobShape JobShape::of(std::uint64_t seed) {
  const int pipelines[] = {1, 2, 4};
  return {.pipeline = pipelines[seed % 3], .tied = seed / 3 % 2 == 1, .evaluate = seed / 6 % 2 == 1, .save = seed / 12 % 2 == 1};
}

JobShape JobShape::of_replicas(std::uint64_t seed) {
  const auto bit = [seed](int which) { return (seed >> which) % 2 == 1; };
  return {.pipeline = bit(4) ? 2 : 1, .tied = bit(3), .evaluate = bit(5), .save = bit(6), .replicas = bit(0) ? 4 : 2,
          .zero = static_cast<int>(seed / 2 % 4), .prefetch = bit(5) ? 0 : 1};
}

JobShape JobShape::of_parts(std::uint64_t seed) {
  const auto bit = [seed](int which) { return (seed >> which) % 2 == 1; };
  return {.pipeline = 4, .tied = bit(4), .evaluate = bit(5), .save = bit(3) && bit(5), .replicas = bit(1) ? 2 : 1, .zero = bit(1) ? static_cast<int>(seed / 4 % 4) : 0,
          .parts = bit(0) ? 4 : 2, .layers = 4};
}

std::vector<std::string> JobShape::overrides(const std::string& corpus) const {
  std::vector<std::string> all{absl::StrCat("--parallelism.pipeline=", pipeline),
                               absl::StrCat("--model.tied_embeddings=", tied ? "true" : "false"),
                               "--training.dtype=" + dtype};
  if (gpipe) all.push_back("--parallelism.schedule=gpipe");
  if (micro_batches > 0) all.push_back(absl::StrCat("--training.global_batch=", micro_batches * replicas));
  if (replicas > 1) {
    for (auto text : {absl::StrCat("--parallelism.data_parallel=", replicas), absl::StrCat("--parallelism.zero=", zero),
                      absl::StrCat("--parallelism.prefetch=", prefetch), absl::StrCat("--parallelism.shard_group=", shard_group),
                      absl::StrCat("--model.layers=", layers),
                      std::string("--model.hidden=64"), std::string("--model.intermediate=96")}) {
      all.push_back(text);
    }
  }
  if (pulls) {
    all.push_back("--parallelism.balance=pull");
    for (const char* text : {"--training.global_batch=12", "--optimizer.lr=0.001"}) all.push_back(text);
    if (!replay.empty()) all.push_back(absl::StrCat("--parallelism.replay=", replay));
  }
  if (evaluate) {
    for (auto text : {absl::StrCat("--data.validation=", corpus), std::string("--validation.interval=1"), absl::StrCat("--validation.steps=", validation_steps)}) {
      all.push_back(text);
    }
  }
  return all;
}

std::string JobShape::describe() const {
  return absl::StrCat(replicas > 1 ? absl::StrCat(replicas, " replicas, ZeRO-", zero, shard_group > 0 ? absl::StrCat(" in groups of ", shard_group) : "", ", ") : "", "pipeline ", pipeline,
                      parts > 1 ? absl::StrCat(" in ", parts, " processes each") : "", gpipe ? ", gpipe" : "", micro_batches > 0 ? absl::StrCat(", ", micro_batches, " micro-batches") : "",
                      tied ? ", tied" : "", evaluate ? ", evaluation" : "",
                      save ? ", saves" : "", pulls ? ", pulled" : "", node_of.empty() ? "" : absl::StrCat(", machines ", absl::StrJoin(node_of, " ")));
}

std::string broken_credits(const std::vector<std::shared_ptr<const trace::EdgeProbe>>& edges) {
  for (const auto& edge : edges) {
    const auto reclaimed = edge->reclaimed.load(), returned = edge->returned.load(), delivered = edge->delivered.load(),
               sent = edge->sent.load(), taken = edge->taken.load(), free = edge->free.load();
    const bool in_order = taken >= sent && sent >= delivered && delivered >= returned && returned >= reclaimed;
    if (in_order && free + (taken - reclaimed) == edge->capacity) continue;
    return absl::StrCat("edge ", edge->name, ": capacity ", edge->capacity, ", free ", free, ", taken ", taken, ", sent ", sent,
                        ", delivered ", delivered, ", returned ", returned, ", reclaimed ", reclaimed);
  }
  return {};
}

Watch::Watch(actor::System& system, const JobShape& shape, int blocks, int max_operations) : edges_(system.probes().edges()) {
  for (const auto& row : system.probes().snapshot().actors) {
    const std::int64_t edges = row.name == "supervisor" ? 0 : system.mailbox_bound(system.find(row.name));
    mailboxes_.push_back({system.probes().find(row.name), edges + control_bound(row.name, shape, blocks, max_operations, edges)});
  }
}

void Watch::look() {
  if (!broken_.empty()) return;
  broken_ = broken_credits(edges_);
  for (const auto& mailbox : mailboxes_) {
    if (mailbox.probe->depth() <= mailbox.bound) continue;
    broken_ = absl::StrCat("the mailbox of ", mailbox.probe->name(), " holds ", mailbox.probe->depth(), " messages, its bound is ",
                           mailbox.bound);
  }
}

std::string Watch::unfinished() const {
  std::string text;
  for (const auto& mailbox : mailboxes_) {
    if (mailbox.probe->name() == "supervisor" || mailbox.probe->has_ended()) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", mailbox.probe->name(), " has not ended");
  }
  for (const auto& edge : edges_) {
    if (edge->returned.load() == edge->taken.load()) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", edge->taken.load() - edge->returned.load(), " slots of ", edge->name, " are not back");
  }
  return text;
}

bool keep_files_in_memory() {
  if (access("/dev/shm", W_OK) != 0) return false;
  setenv("TMPDIR", "/dev/shm", 0);
  return true;
}

namespace {

// One process of the job.
struct Process {
  std::unique_ptr<comm::Transport> transport;  // none where there is one process
  std::unique_ptr<actors::TrainingJob> job;
  std::unique_ptr<Watch> watch;
  actors::JobSummary memory;                   // at the start
  ProcessEnd end;
  bool asked_to_meet = false, met = false;

  // What TrainingJob::wait() does, which would block.
  void look_for_the_end(std::int64_t now_ns) {
    if (end.left() || !actor::SimWorld::has_ended(job->system())) return;
    if (end.ended_ns < 0) {
      end.ended_ns = now_ns;
      end.status = job->system().outcome();
    }
    if (transport == nullptr) {
      end.left_ns = now_ns;
    } else if (!end.status.ok() || met) {
      transport->stop(end.status);
      end.left_ns = now_ns;
    } else if (!std::exchange(asked_to_meet, true)) {
      job->meet_others([this](Status status) {
        met = true;
        end.status = std::move(status);
      });
    }
  }
  std::string broken() const {
    if (!watch->broken().empty()) return watch->broken();
    const auto now = job->summary();
    if (now.pool_takes == memory.pool_takes && now.pool_used_bytes == memory.pool_used_bytes) return {};
    return absl::StrCat("the pool had ", memory.pool_used_bytes, " bytes in use at the start and ", now.pool_used_bytes, " at the end, after ",
                        now.pool_takes - memory.pool_takes, " more takes");
  }
};

std::map<std::pair<int, int>, std::int64_t> lost(const comm::SimNetwork& network) {
  std::map<std::pair<int, int>, std::int64_t> by_link;
  for (int from = 0; from < network.world(); ++from) {
    for (int to = 0; to < network.world(); ++to) {
      if (const auto count = network.traffic(Rank(from), Rank(to)).lost; count > 0) by_link[{from, to}] = count;
    }
  }
  return by_link;
}

void add(std::string& all, std::size_t rank, const std::string& text) {
  if (!text.empty()) absl::StrAppend(&all, all.empty() ? "" : "; ", "rank ", rank, ": ", text);
}

}  // namespace

Trial run_trial(std::uint64_t seed, const JobShape& shape, const std::string& corpus, const std::string& output,
                const TrialOptions& options) {
  actor::SimWorld sim(seed, 0);
  std::unique_ptr<comm::SimNetwork> network;
  if (shape.world() > 1) {
    comm::SimNetworkOptions how{.world = shape.world(), .seed = seed};
    how.eager_bytes_most = seed % 3 == 0 ? 0 : 8'192;
    how.told_of_a_crash = seed % 2 == 0 ? 0 : 0.5;
    network = std::make_unique<comm::SimNetwork>(sim.clock(), how);
    sim.add(*network);
  }
  std::vector<Process> processes(static_cast<std::size_t>(shape.world()));
  for (std::size_t i = 0; i < processes.size(); ++i) {
    Process& process = processes[i];
    const Rank rank(static_cast<std::int32_t>(i));
    actor::SimWorld::Runs runs;
    if (network) {
      process.transport = network->transport(rank);
      runs = [&network, rank] { return network->runs(rank); };
    }
    actors::World world{.kernels = kernels::cpu::table(), .clock = sim.clock(), .system = sim.options(), .make_stream = {},
                        .max_operations = kMaxOperations, .transport = process.transport.get(), .node_of = shape.node_of};
    world.make_stream = [&](std::string name, int, device::Buffer scratch) -> std::unique_ptr<device::Stream> {
      auto cost = cost_of(seed + i * 1'000'003, name);
      auto stream = std::make_unique<device::SimStream>(std::move(name), sim.clock(), std::move(cost), std::move(scratch));
      sim.add(*stream, runs);
      auto slow = std::make_unique<WithSlowNotifications>(std::move(stream));
      if (options.wrap) return options.wrap(std::move(slow), rank);
      return slow;
    };
    auto job = make_job(small_config(corpus, output), shape.overrides(corpus), world, shape.save);
    if (!job.ok()) return {.outcome = {.status = job.status()}};
    process.job = *std::move(job);
    process.watch = std::make_unique<Watch>(process.job->system(), shape, static_cast<int>(process.job->plan().blocks.size()), kMaxOperations);
    process.memory = process.job->summary();
    sim.drive(process.job->system(), runs);
  }
  std::vector<actors::TrainingJob*> jobs;
  for (const auto& process : processes) jobs.push_back(process.job.get());
  std::map<std::pair<int, int>, std::int64_t> lost_frames;
  sim.after_each_event([&] {
    const bool all_there = network && std::none_of(processes.begin(), processes.end(), [](const Process& process) { return process.end.left(); });
    if (all_there) lost_frames = lost(*network);
    for (auto& process : processes) {
      process.watch->look();
      process.look_for_the_end(sim.clock().now_ns());
    }
    if (options.after_each_event) options.after_each_event(*processes.front().job);
    if (options.meddle) options.meddle(jobs, false);
  });
  const RandomStream random({.seed = seed, .use = 77});
  for (std::size_t i = 0; i < processes.size(); ++i) {
    if (network) {
      network->at(random.at(i) % 100'000, [&process = processes[i]] { process.job->start(); });
    } else {
      processes[i].job->start();
    }
  }
  if (options.befall) options.befall(*network);
  Status status = sim.run(kMaxEvents);
  while (status.ok() && options.meddle && options.meddle(jobs, true)) status = sim.run(kMaxEvents);
  Trial trial{.outcome = read_metrics(output), .lost_frames = std::move(lost_frames)};
  trial.outcome.status = status;
  trial.events = sim.events();
  trial.order = sim.order();
  trial.ended_ns = sim.clock().now_ns();
  for (std::size_t i = 0; i < processes.size(); ++i) {
    auto& process = processes[i];
    add(trial.broken, i, process.broken());
    if (!network || !network->has_crashed(Rank(static_cast<std::int32_t>(i)))) add(trial.unfinished, i, process.watch->unfinished());
    trial.ends.push_back(process.end);
  }
  for (int from = 0; network && from < shape.world(); ++from) {
    for (int to = 0; to < shape.world(); ++to) {
      const auto& traffic = network->traffic(Rank(from), Rank(to));
      const std::int64_t pulled = traffic.bulk_bytes[static_cast<std::size_t>(comm::Channel::kSlices)];
      trial.pulled_bytes += pulled;
      if (!shape.node_of.empty() && shape.node_of[static_cast<std::size_t>(from)] != shape.node_of[static_cast<std::size_t>(to)]) {
        trial.pulled_between_nodes_bytes += pulled;
      }
      if (traffic.sent != traffic.arrived + traffic.lost && !network->has_crashed(Rank(to))) {
        add(trial.broken, static_cast<std::size_t>(to),
            absl::StrCat(traffic.arrived, " frames came and ", traffic.lost, " were lost of ", traffic.sent, " from rank ", from));
      }
    }
  }
  if (network) absl::StrAppend(&trial.unfinished, network->unfinished());
  for (auto& process : processes) {
    if (process.transport) process.transport->stop();  // before the actors and engines go that it would call
  }
  for (auto& process : processes) process.job.reset();
  return trial;
}

}  // namespace troupe::test
