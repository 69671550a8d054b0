// A file of tests/parity/golden: right values by name (its README lists them), and the comparison with them.
//
// Threads: any, const. Errors: an absent file or tensor is a failed check that names it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/checkpoint/safetensors.h"
#include "models/model_config.h"
#include "tests/parity/models/whole_model.h"

namespace troupe::parity {

class GoldenFile {
 public:
  // `model`: "gpt2" for tests/parity/golden/gpt2.safetensors.
  explicit GoldenFile(const std::string& model);

  models::ModelConfig config() const;     // by the newer form
  models::ModelConfig config_v4() const;  // by the older one

  // Names that begin with `prefix`, without it.
  std::vector<std::string> names(const std::string& prefix) const;
  std::vector<double> floats(const std::string& name) const;
  std::vector<std::int32_t> integers(const std::string& name) const;
  double scalar(const std::string& name) const;

  Batch batch() const;
  // The batch of step `step`, from 0; positions and documents are those of batch().
  Batch step_batch(std::int64_t step) const;

 private:
  template <class T>
  std::vector<T> read(const std::string& name, checkpoint::ElementType type) const;
  checkpoint::SafetensorsReader reader_;
};

// max|a - b| / max|b|; where b is all zeros: 0 if a is too, else infinite.
double error(std::span<const double> a, std::span<const double> b);

}  // namespace troupe::parity
