// Joins the stages of a process with each other and with their neighbours in other processes: activations down, gradients up, and the
// activations of evaluation down.
#pragma once

#include <vector>

#include "actors/control/far_edge.h"
#include "actors/train/stage.h"

namespace troupe::actors {

// Which process this is, and what it has. `far` is there if the plan cuts replicas over processes.
struct StagesHere {
  const plan::Plan& plan;
  Rank rank{0};
  const std::vector<Stage*>& stages;               // of this process, in order
  const std::vector<plan::StageMemory>& memory;    // theirs
  bool evaluates = false;
  FarEdges* far = nullptr;
};
// Before the System starts.
void connect_stages(const StagesHere& here);

}  // namespace troupe::actors
