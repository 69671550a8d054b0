// Reads micro-batches ahead on the loader's stream and hands them to the stages in order. Part of the source and of the evaluator.
//
// A batch goes to every stage: each has an input slot per credit, and the loader writes the integers of a batch into the slots of all
// stages. So a batch is read when every stage has a credit for it, and sent when its step is open.
// Threads: the owning actor's; reading runs on the loader's stream and touches mapped pages only there.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "actors/protocol.h"
#include "models/data/sample_source.h"
#include "runtime/actor/edge.h"

namespace troupe::actors {

// Which batch.
struct BatchPlace {
  StepId step;
  MicroBatchId micro_batch;    // of those that go to these stages
  std::int64_t slot = 0;       // of all replicas' in the step or evaluation: what says which samples
  bool last = false;           // no more of it go to these stages
};

// A batch lies in its slots, or the read failed.
struct BatchRead {
  Status result;
};

class BatchFeed {
 public:
  // Sample ids of the rows of a batch.
  using Samples = std::function<SampleId(const BatchPlace& place, std::int64_t row)>;

  struct Setup {
    std::string port;                                    // "batch-0", "batch-1" ...
    const data::SampleSource& source;
    models::Geometry geometry;
    Samples samples;
    device::Stream& loader;
    std::vector<std::vector<models::MicroBatchInputs>*> inputs;  // per stage, per credit
  };
  BatchFeed(actor::Actor& owner, Setup setup);

  // Starts reading `place` if every stage has a credit; false if not.
  bool read(const BatchPlace& place, const actor::Ref& owner);
  // One more read has ended; they end in the order in which they were started.
  void read_done();
  // The oldest batch that was read is handed over; a bug if there is none.
  void hand_over();

  SampleId sample(const BatchPlace& place, std::int64_t row) const { return setup_.samples(place, row); }
  // Batches that a stage has, queued or in work.
  int with_stage(int stage) { return out(stage).in_flight() - static_cast<int>(pending_.size()); }
  // Of the edge whose credit the next read waits for; of the first if there is none.
  trace::Name without_credit() const {
    const auto out = std::find_if(outs_.begin(), outs_.end(), [](const auto& each) { return !each->ready(); });
    return (out == outs_.end() ? outs_.front() : *out)->trace_name();
  }
  bool pending() const { return !pending_.empty(); }
  bool has_read() const { return !pending_.empty() && pending_.front().read; }
  const BatchPlace& next() const { return pending_.front().place; }
  actor::Out<Batch>& out(int stage) { return *outs_[static_cast<std::size_t>(stage)]; }
  template <class Self>
  void on_credit(void (Self::*handler)()) {
    for (auto& out : outs_) out->on_credit(handler);
  }

 private:
  struct Pending {
    BatchPlace place;
    std::vector<actor::OutSlot> slots;  // per stage
    bool read = false;
  };
  Setup setup_;
  std::vector<std::unique_ptr<actor::Out<Batch>>> outs_;
  std::deque<Pending> pending_;
};

}  // namespace troupe::actors
