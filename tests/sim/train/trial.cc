#include "tests/sim/train/trial.h"

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
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
std::int64_t control_bound(const std::string& actor, int stages, int blocks, int max_operations, std::int64_t edge_bound) {
  const std::int64_t life = 3;                                                    // start, orderly stop, stop now
  if (actor == "device") return life + 3 * stages + blocks + max_operations;      // RunTask per pass and shard, OperationCompleted
  if (actor == "ledger") return life + 2 * blocks + 5;                            // norms and updates; loss, fed, evaluated, saved, stop
  if (actor == "checkpoint-writer") return life + blocks + 1;                     // SnapshotTaken; SaveRequested
  if (actor == "reporter") return life + kSteps + 1;                              // StepClosed; StorageDone
  if (actor == "source" || actor == "evaluator") return life + 1 + edge_bound * 8;  // OpenStep; BatchRead of each batch being read
  if (absl::StartsWith(actor, "stage-")) return life + 3;                         // TaskDone of each pass
  if (absl::StartsWith(actor, "shard-")) return life + 2 + 3;                     // gradient of two uses; decided, snapshot, TaskDone
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

std::vector<std::string> JobShape::overrides(const std::string& corpus) const {
  std::vector<std::string> all{absl::StrCat("--parallelism.pipeline=", pipeline),
                               absl::StrCat("--model.tied_embeddings=", tied ? "true" : "false")};
  if (evaluate) {
    for (auto text : {absl::StrCat("--data.validation=", corpus), std::string("--validation.interval=1"), std::string("--validation.steps=3")}) {
      all.push_back(text);
    }
  }
  return all;
}

std::string JobShape::describe() const {
  return absl::StrCat("pipeline ", pipeline, tied ? ", tied" : "", evaluate ? ", evaluation" : "", save ? ", saves" : "");
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

Watch::Watch(actor::System& system, int stages, int blocks, int max_operations) : edges_(system.probes().edges()) {
  for (const auto& row : system.probes().snapshot().actors) {
    const std::int64_t edges = row.name == "supervisor" ? 0 : system.mailbox_bound(system.find(row.name));
    mailboxes_.push_back({system.probes().find(row.name), edges + control_bound(row.name, stages, blocks, max_operations, edges)});
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

Trial run_trial(std::uint64_t seed, const JobShape& shape, const std::string& corpus, const std::string& output,
                const TrialOptions& options) {
  actor::SimWorld sim(seed, 0);
  actors::World world{.kernels = kernels::cpu::table(), .clock = sim.clock(), .system = sim.options(), .make_stream = {},
                      .max_operations = kMaxOperations};
  world.make_stream = [&](std::string name, int, device::Buffer scratch) -> std::unique_ptr<device::Stream> {
    auto cost = cost_of(seed, name);
    auto stream = std::make_unique<device::SimStream>(std::move(name), sim.clock(), std::move(cost), std::move(scratch));
    sim.add(*stream);
    auto slow = std::make_unique<WithSlowNotifications>(std::move(stream));
    if (options.wrap) return options.wrap(std::move(slow));
    return slow;
  };
  auto job = make_job(small_config(corpus, output), shape.overrides(corpus), world, shape.save);
  if (!job.ok()) return {.outcome = {.status = job.status()}};
  auto& running = **job;
  Watch watch(running.system(), shape.pipeline, static_cast<int>(running.plan().blocks.size()), kMaxOperations);
  const auto memory = running.summary();
  sim.drive(running.system());
  sim.after_each_event([&] {
    watch.look();
    if (options.after_each_event) options.after_each_event(running);
  });
  running.start();
  const Status status = sim.run(kMaxEvents);
  Trial trial{.broken = watch.broken(), .unfinished = watch.unfinished(), .events = sim.events(), .order = sim.order()};
  const auto now = running.summary();
  if (trial.broken.empty() && (now.pool_takes != memory.pool_takes || now.pool_used_bytes != memory.pool_used_bytes)) {
    trial.broken = absl::StrCat("the pool had ", memory.pool_used_bytes, " bytes in use at the start and ", now.pool_used_bytes,
                                " at the end, after ", now.pool_takes - memory.pool_takes, " more takes");
  }
  trial.outcome = read_metrics(output);
  trial.outcome.status = status;
  return trial;
}

}  // namespace troupe::test
