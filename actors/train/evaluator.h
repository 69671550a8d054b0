// Validation loss by forward-only work of the lowest urgency on the stages that train. Training's bits do not change.
//
// Acts:  EvaluationRequested -> this replica's part of those validation batches, the same each time, read and handed to the stages as
//        credits allow; the last stage tells the ledger each one's loss. Where none is for this replica it has nothing to do, and nobody
//        waits for it: an evaluation has no collective (CASES T27, T28).
// Fails: when the validation corpus cannot be read; the cause names file and position.
// Threads: an actor's; its edges are joined before the System starts. Owns: the feed with what it has read; the corpus, the loader and the
//        slots outlive it. Errors: a request while the one before is going on is a bug.
// Invariant: batch i goes to replica i mod N, with the samples i * B and on, for any N (Training.ValidatesWithTheSameBitsOnAnyNumberOfReplicas).
#pragma once

#include "actors/train/batch_feed.h"
#include "runtime/actor/actor.h"

namespace troupe::actors {

class Evaluator : public actor::Actor {
 public:
  struct Setup {
    BatchFeed::Setup feed;   // its `samples` is set here
    int replica = 0, replicas = 1;
    std::vector<std::string> stages{};  // the actors that the feed goes to
  };
  explicit Evaluator(Setup setup);
  BatchFeed& feed() { return feed_; }

 private:
  void started() override;
  void show_state();
  void requested(EvaluationRequested message);
  void batch_read(BatchRead message);
  void go_on();

  const int replica_, replicas_;
  const std::vector<std::string> stages_;
  BatchFeed feed_;
  EvaluationRequested asked_;
  int batches_ = 0;  // of those asked for, this replica's
  int next_ = 0;     // to be read; batches_ when there is none
  struct {
    trace::Name read, evaluation;
    std::vector<trace::Name> stages;
  } names_;
};

}  // namespace troupe::actors
