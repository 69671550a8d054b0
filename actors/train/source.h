// The data loader: stays ahead of the stages by its credits or, where replicas pull, by one micro-batch.
//
// Acts:  a credit from every stage -> the next batch is read on the loader's stream; read and its step open -> Batch to the stages;
//        the step's last batch about to be handed over -> StepFed, with the time in which stages could have had a batch that was not read yet.
// Where replicas pull (pulled_share.h): room -> MicroBatchAsked; MicroBatchAssigned -> that one is read. A share that has ended without a
//        batch marked as the last -> StepFed, and ShareEnded to the stages.
// Fails: when the corpus cannot be read; the cause names file and position.
// Threads: an actor's; connect_to, and its edges, before the System starts. Owns: the feed with what it has read ahead; the corpus, the loader
//        and the slots outlive it. Errors: steps that are opened out of order, or at another cursor, are bugs.
// Invariants: the samples of a step depend on its number alone (Training.ResumesWithTheSameBits, CASES T01-T03), those of a micro-batch on its
//        index in the step.
#pragma once

#include "actors/train/batch_feed.h"
#include "actors/train/pulled_share.h"
#include "models/data/batch_layout.h"
#include "models/data/sampler.h"
#include "runtime/actor/actor.h"

namespace troupe::actors {

class Source : public actor::Actor {
 public:
  struct Setup {
    BatchFeed::Setup feed;         // its `samples` is set here
    data::BatchLayout layout;
    int replica = 0;               // whose samples
    StepId first_step;
    std::int64_t last_step = 0;    // no batch is read beyond
    int in_flight = 1;             // micro-batches that the first stage works on at once; with fewer it could take one
    bool pulls = false;            // the assigner says which micro-batches
    bool asks = true;              // this one asks the assigner: the first stage is here
    std::string assigner{};        // where replicas pull, who says which: NAME or NAME@RANK
  };
  explicit Source(Setup setup);
  // `stages`: those that the feed goes to.
  void connect_to(actor::Ref replica, std::vector<actor::Ref> stages);
  BatchFeed& feed() { return feed_; }

 private:
  void started() override;
  void open(OpenStep message);
  void batch_read(BatchRead message);
  void assigned(MicroBatchAssigned message);
  void computed(MicroBatchComputed message);
  void read_ahead();
  void read_what_is_assigned();
  void send_what_is_open();
  void tell_fed(StepId step);
  void end_share();
  void show_state();

  const data::BatchLayout layout_;
  const int replica_;
  const std::int64_t last_step_;
  const int in_flight_;
  const bool asks_;
  const std::string assigner_;
  BatchFeed feed_;
  actor::Ref agent_;
  std::vector<actor::Ref> stages_;
  BatchPlace next_read_;           // where micro-batches go by index
  std::optional<PulledShare> share_;
  StepId open_;                    // batches up to this step may be handed over
  std::int64_t waiting_since_ns_ = -1;
  std::int64_t waited_ns_ = 0;     // in the open step
  std::uint64_t sample_hash_ = 0;  // of the batches of the open step that were handed over
  struct {
    trace::Name read, assignment, assigner;
  } names_;
};

}  // namespace troupe::actors
