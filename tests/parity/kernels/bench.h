// Runs a Case on a table: places its tensors between guard bytes, fills, calls, reads back. Owns pool and
// streams.
//
// Outputs hold NaN before the call, so what was not written shows. Threads: one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/device/host_stream.h"
#include "tests/parity/kernels/case.h"

namespace troupe::kernels::parity {

using Numbers = std::map<std::string, std::vector<double>>;  // by field

struct Placement {
  int threads = 1;
  std::int64_t shift_elements = 0;  // tensors start this far from a 64-byte line, as views of rows do
};

struct Outcome {
  Numbers outputs;                                      // kOutput and kUpdated
  std::map<std::string, std::vector<std::byte>> bytes;  // the same, as stored
  std::vector<std::string> stray_writes;                // guards or inputs that changed
};

class Bench {
 public:
  Bench() : pool_(std::int64_t{192} << 20) {}

  // What all fields hold before the call, rounded to the types of a run in `model`. Derived inputs by ref in
  // fp64.
  Numbers inputs(const Case& c, DType model);
  // The truth: ref on fp64 tensors.
  Numbers reference(const Case& c, DType model, const Numbers& inputs);
  Outcome run(const Case& c, const Table& table, DType model, const Numbers& inputs, Placement placement);

 private:
  struct Placed;
  Placed place(const Field& field, DType type, std::int64_t shift);
  Outcome execute(const Case& c, const Call& call, const Table& table, const std::vector<DType>& types,
                  const Numbers& inputs, Placement placement, std::int64_t scratch_bytes, bool share_memory);

  device::BufferPool pool_;
};

DType declared_type(const Field& field, DType model);

// max|a - b| / max|b|, infinite where one is NaN and the other is not; max|a - b| where b is zero everywhere.
double error(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace troupe::kernels::parity
