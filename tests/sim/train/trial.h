// One training job in the deterministic world: which job, which faults, what must hold after every event, what came out.
//
// A job of several ranks is as many processes: each a TrainingJob with Systems, streams and memory of its own, joined by the simulated
// network. Threads: one. A trial's seed chooses the order of events, how long the work of each stream and each packet takes, and when
// each process starts.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/sim/sim_network.h"
#include "runtime/actor/sim_world.h"
#include "tests/support/tiny_job.h"

namespace troupe::test {

// 4 layers, hidden 16, T 8, 3 steps of 4 micro-batches, fp32, one compute thread.
std::string small_config(const std::string& corpus, const std::string& output);

// Passes everything on.
class StreamDecorator : public device::Stream {
 public:
  explicit StreamDecorator(std::unique_ptr<device::Stream> inner) : inner_(std::move(inner)) {}
  void enqueue(device::Work work) override { inner_->enqueue(std::move(work)); }
  device::Event record() override { return inner_->record(); }
  void wait(const device::Event& event) override { inner_->wait(event); }
  void notify(device::Work then) override { inner_->notify(std::move(then)); }
  Status first_error() const override { return inner_->first_error(); }
  const std::string& name() const override { return inner_->name(); }

 protected:
  device::Stream& inner() { return *inner_; }

 private:
  std::unique_ptr<device::Stream> inner_;
};

// The device fails at its nth entry.
class FailsAt final : public StreamDecorator {
 public:
  FailsAt(std::unique_ptr<device::Stream> inner, int entry) : StreamDecorator(std::move(inner)), left_(entry) {}
  void enqueue(device::Work work) override {
    if (left_-- == 0) {
      inner().enqueue([](device::StreamContext&) { return Status(absl::StatusCode::kInternal, "the device lost its memory"); });
    }
    inner().enqueue(std::move(work));
  }

 private:
  int left_;
};

// Its work takes `times` as long.
class Slowed final : public StreamDecorator {
 public:
  Slowed(std::unique_ptr<device::Stream> inner, int times) : StreamDecorator(std::move(inner)), times_(times) {}
  void enqueue(device::Work work) override {
    inner().enqueue(std::move(work));
    for (int i = 1; i < times_; ++i) inner().enqueue([](device::StreamContext&) {});
  }

 private:
  const int times_;
};

inline constexpr int kSteps = 3;

struct JobShape {
  int pipeline = 1;
  bool tied = false, evaluate = false, save = false;
  int replicas = 1, zero = 0, prefetch = 1;
  int shard_group = 0;
  bool pulls = false;           // 12 micro-batches a step then
  std::string replay = {};      // whose assignment is followed
  int parts = 1;                // processes of each replica
  int layers = 2;               // of several replicas; one has 4
  int validation_steps = 3;
  std::string dtype = "fp32";
  int micro_batches = 0;        // of a step and replica; 0: as the config says
  bool gpipe = false;
  std::vector<int> node_of = {};  // by rank: its machine; empty: all on one

  int world() const { return replicas * parts; }
  // Goes through all of them as the seed goes up.
  static JobShape of(std::uint64_t seed);
  // Two layers, blocks of two chunks of the norm: with ZeRO-1 and 4 replicas some hold a part and some none.
  static JobShape of_replicas(std::uint64_t seed);
  // Four stages in 2 and 4 processes each for one and two replicas.
  static JobShape of_parts(std::uint64_t seed);
  std::vector<std::string> overrides(const std::string& corpus) const;
  std::string describe() const;
};

// What must be true of the edges at any instant; empty if it is, else what is wrong.
std::string broken_credits(const std::vector<std::shared_ptr<const trace::EdgeProbe>>& edges);

// After every event: credits + in flight = capacity on every edge; no mailbox above its bound.
class Watch {
 public:
  Watch(actor::System& system, const JobShape& shape, int blocks, int max_operations);
  void look();
  // The first thing that was wrong, empty if nothing was.
  const std::string& broken() const { return broken_; }
  // Once nothing can happen any more: every actor has ended, every slot is back with its sender.
  std::string unfinished() const;

 private:
  struct Mailbox {
    std::shared_ptr<const trace::Probe> probe;
    std::int64_t bound = 0;
  };
  std::vector<std::shared_ptr<const trace::EdgeProbe>> edges_;
  std::vector<Mailbox> mailboxes_;
  std::string broken_;
};

// What became of one process.
struct ProcessEnd {
  Status status;
  std::int64_t ended_ns = -1;   // of virtual time; -1: its actors have not ended
  std::int64_t left_ns = -1;    // its transport has stopped; -1: it has not

  bool left() const { return left_ns >= 0; }
};

struct Trial {
  Outcome outcome;              // status: of the first process that failed
  std::string broken;           // an invariant; empty if none
  std::string unfinished;       // of the processes that have not crashed
  std::vector<ProcessEnd> ends; // by rank
  std::int64_t pulled_bytes = 0, pulled_between_nodes_bytes = 0;  // weights: all, from oneself too; from machine to machine
  std::map<std::pair<int, int>, std::int64_t> lost_frames;  // by link, (from, to), before the first process left
  std::int64_t events = 0, ended_ns = 0;
  std::uint64_t order = 0;
};

struct TrialOptions {
  // Wraps that stream of that rank, to plant a fault; gives back what it was given otherwise.
  std::function<std::unique_ptr<device::Stream>(std::unique_ptr<device::Stream> stream, Rank rank)> wrap;
  // Looks at the job, that of rank 0, after every event.
  std::function<void(actors::TrainingJob& job)> after_each_event;
  // Meddles with the jobs of all ranks after every event, and when nothing can happen any more (`still`); true: go on, something can again.
  std::function<bool(const std::vector<actors::TrainingJob*>& jobs, bool still)> meddle;
  // Plants faults into the network of several processes, before anything starts.
  std::function<void(comm::SimNetwork& network)> befall;
};

// Temporary folders lie in memory from now on, where the machine has such a folder: thousands of files need no disk.
bool keep_files_in_memory();

Trial run_trial(std::uint64_t seed, const JobShape& shape, const std::string& corpus, const std::string& output,
                const TrialOptions& options = {});

}  // namespace troupe::test
