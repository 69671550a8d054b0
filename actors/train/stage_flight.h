// What a stage knows of one micro-batch. Private to stage.cc, stage_passes.cc and stage_rooms.cc.
// Threads: the stage's handlers, and its tasks in the device loop's context; never both at once, since the stage leaves a flight alone until TaskDone.
// Owns: what came along the edges, with their credits, and the slots it took; memory is the stage's.
#pragma once

#include "actors/train/stage.h"

namespace troupe::actors {

struct Stage::Flight {
  StepId step;
  MicroBatchId micro_batch;
  actor::Delivery<Batch> batch;
  actor::Delivery<Activation> activation;   // stages after the first
  actor::Delivery<Gradient> gradient;       // stages before the last, once it came
  int slot = -1;                            // of memory_.slots
  actor::OutSlot out;                       // of activation_out or evaluation_out
  actor::OutSlot gradient_slot;             // of gradient_out
  device::Tensor sent;                      // what goes to the next stage
  device::Tensor sent_gradient;             // what goes to the previous one
  bool forwarded = false;
  bool evaluates = false;
};

}  // namespace troupe::actors
