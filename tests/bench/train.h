// How fast training is, against what the machine can do and against others, always in turns within one run.
//
// Threads: one. Errors: kNotFound when a peer's program is not there. Limits: GPT-2 124M takes about 3 GiB a job and some ten seconds
// a step on two cores.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "tests/bench/paced_job.h"
#include "tests/bench/row.h"

namespace troupe::bench {

struct TrainOptions {
  PacedOptions job;
  int pairs = 7;
  int compare_stages = 0;          // > 0: this many stages over job.stages
  int compare_saves = 0;           // > 0: a save every so many steps over none
  std::string peer_python;         // with torch: PyTorch in turns with us
  std::string peer_script = "tests/bench/peers/pytorch_train.py";
  std::vector<std::string> peer_arguments;  // how it is to do it; empty: the fastest of its ways, found by a trial
};

struct TrainFigures {
  double tokens_per_s = 0, model_flops_per_s = 0, matmul_flops_per_s = 0, ratio = 0;
  std::string formula;
  std::vector<BenchRow> rows;
};
StatusOr<TrainFigures> bench_train(const TrainOptions& options);

}  // namespace troupe::bench
