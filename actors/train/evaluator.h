// Validation loss by forward-only work of the lowest urgency on the stages that train. Training's bits do not change.
//
// Acts:  EvaluationRequested -> the same validation batches each time, read and handed to the stages as credits allow; the last stage
//        tells the ledger the loss. Fails: when the validation corpus cannot be read.
#pragma once

#include "actors/train/batch_feed.h"
#include "runtime/actor/actor.h"

namespace troupe::actors {

class Evaluator : public actor::Actor {
 public:
  // `feed.samples` is set here: batch b has samples b * B and on.
  Evaluator(BatchFeed::Setup feed, int batches);
  BatchFeed& feed() { return feed_; }

 private:
  void requested(EvaluationRequested message);
  void batch_read(BatchRead message);
  void go_on();

  const int batches_;
  BatchFeed feed_;
  StepId step_;
  int next_ = 0;  // batch to be read; batches_ when there is none
};

}  // namespace troupe::actors
