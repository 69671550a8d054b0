// The data loader: stays ahead of the stages by its credits.
//
// Acts:  a credit from every stage -> the next batch is read on the loader's stream; read and its step open -> Batch to the stages;
//        the step's last batch about to be handed over -> StepFed, with the time in which stages could have had a batch that was not read yet.
// Fails: when the corpus cannot be read; the cause names file and position.
// Invariants: the samples of a step depend on its number alone (Source.ResumesAtTheCursor, CASES T01-T03).
#pragma once

#include "actors/train/batch_feed.h"
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
  };
  explicit Source(Setup setup);
  void connect_to(actor::Ref ledger) { ledger_ = std::move(ledger); }
  BatchFeed& feed() { return feed_; }

 private:
  void started() override { read_ahead(); }
  void open(OpenStep message);
  void batch_read(BatchRead message);
  void read_ahead();
  void send_what_is_open();
  void show_state();

  const data::BatchLayout layout_;
  const std::int64_t last_step_;
  const int in_flight_;
  BatchFeed feed_;
  actor::Ref ledger_;
  BatchPlace next_read_;
  StepId open_;                    // batches up to this step may be handed over
  std::int64_t waiting_since_ns_ = -1;
  std::int64_t waited_ns_ = 0;     // in the open step
  std::uint64_t sample_hash_ = 0;  // of the batches of the open step that were handed over
};

}  // namespace troupe::actors
