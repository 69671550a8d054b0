#include "tests/parity/models/golden_file.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/parity/models/hf_config.h"

namespace troupe::parity {
namespace {

checkpoint::SafetensorsReader open(const std::string& path) {
  auto reader = checkpoint::SafetensorsReader::open(path);
  TROUPE_CHECK(reader.ok()) << std::string(reader.status().message());
  return *std::move(reader);
}

std::vector<std::int32_t> part(const std::vector<std::int32_t>& all, std::int64_t index, std::size_t size) {
  const auto from = all.begin() + index * static_cast<std::ptrdiff_t>(size);
  return {from, from + static_cast<std::ptrdiff_t>(size)};
}

}  // namespace

GoldenFile::GoldenFile(const std::string& model)
    : reader_(open("tests/parity/golden/" + model + ".safetensors")) {}

models::ModelConfig GoldenFile::config() const { return hf_config(reader_.metadata().at("config")); }

models::ModelConfig GoldenFile::config_v4() const { return hf_config(reader_.metadata().at("config_v4")); }

std::vector<std::string> GoldenFile::names(const std::string& prefix) const {
  std::vector<std::string> names;
  for (const auto& tensor : reader_.tensors()) {
    if (tensor.name.starts_with(prefix)) names.push_back(tensor.name.substr(prefix.size()));
  }
  return names;
}

template <class T>
std::vector<T> GoldenFile::read(const std::string& name, checkpoint::ElementType type) const {
  const auto* tensor = reader_.find(name);
  TROUPE_CHECK(tensor != nullptr) << reader_.path() << " has no " << name;
  TROUPE_CHECK(tensor->type == type) << name << " is " << std::string(checkpoint::name(tensor->type));
  std::vector<T> values(static_cast<std::size_t>(tensor->end_bytes - tensor->begin_bytes) / sizeof(T));
  const auto status = reader_.read(*tensor, 0, std::as_writable_bytes(std::span(values)));
  TROUPE_CHECK(status.ok()) << std::string(status.message());
  return values;
}

std::vector<double> GoldenFile::floats(const std::string& name) const {
  const auto values = read<float>(name, checkpoint::ElementType::kF32);
  return {values.begin(), values.end()};
}

std::vector<std::int32_t> GoldenFile::integers(const std::string& name) const {
  return read<std::int32_t>(name, checkpoint::ElementType::kI32);
}

double GoldenFile::scalar(const std::string& name) const {
  const auto values = floats(name);
  TROUPE_CHECK(values.size() == 1) << name << " has " << values.size() << " elements";
  return values[0];
}

Batch GoldenFile::batch() const {
  const auto batch = reader_.find("tokens")->shape[0];
  Batch b{.batch = batch,
          .tokens = integers("tokens"),
          .targets = integers("targets"),
          .positions = integers("positions"),
          .document_start = integers("document_start"),
          .sample_ids = {}};
  for (std::int32_t row = 0; row < batch; ++row) b.sample_ids.push_back(row);
  return b;
}

Batch GoldenFile::step_batch(std::int64_t step) const {
  Batch b = batch();
  b.tokens = part(integers("steps/tokens"), step, b.tokens.size());
  b.targets = part(integers("steps/targets"), step, b.targets.size());
  return b;
}

double error(std::span<const double> a, std::span<const double> b) {
  TROUPE_CHECK(a.size() == b.size()) << a.size() << " elements compared with " << b.size();
  double difference = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i])) return std::numeric_limits<double>::infinity();
    difference = std::max(difference, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  if (difference == 0) return 0;
  return largest > 0 ? difference / largest : std::numeric_limits<double>::infinity();
}

}  // namespace troupe::parity
