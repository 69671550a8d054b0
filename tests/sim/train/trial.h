// One training job in the deterministic world: which job, which faults, what must hold after every event, what came out.
//
// Threads: one. A trial's seed chooses the order of events and how long the work of each stream takes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

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

inline constexpr int kSteps = 3;

struct JobShape {
  int pipeline = 1;
  bool tied = false, evaluate = false, save = false;

  // Goes through all of them as the seed goes up.
  static JobShape of(std::uint64_t seed);
  std::vector<std::string> overrides(const std::string& corpus) const;
  std::string describe() const;
};

// What must be true of the edges at any instant; empty if it is, else what is wrong.
std::string broken_credits(const std::vector<std::shared_ptr<const trace::EdgeProbe>>& edges);

// After every event: credits + in flight = capacity on every edge; no mailbox above its bound.
class Watch {
 public:
  Watch(actor::System& system, int stages, int blocks, int max_operations);
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

struct Trial {
  Outcome outcome;       // status: of the job, or what was broken
  std::string broken;    // an invariant; empty if none
  std::string unfinished;
  std::int64_t events = 0;
  std::uint64_t order = 0;
};

struct TrialOptions {
  // Wraps the stream of that name, to plant a fault; gives back what it was given otherwise.
  std::function<std::unique_ptr<device::Stream>(std::unique_ptr<device::Stream> stream)> wrap;
  // Looks at the job after every event.
  std::function<void(actors::TrainingJob& job)> after_each_event;
};

Trial run_trial(std::uint64_t seed, const JobShape& shape, const std::string& corpus, const std::string& output,
                const TrialOptions& options = {});

}  // namespace troupe::test
