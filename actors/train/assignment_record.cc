#include "actors/train/assignment_record.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/base/check.h"
#include "runtime/device/storage.h"

namespace troupe::actors {
namespace {

using Shares = std::vector<std::vector<std::int32_t>>;

bool is_assignment(const nlohmann::json& value) {
  if (!value.is_array()) return false;
  for (const auto& share : value) {
    if (!share.is_array()) return false;
    for (const auto& micro_batch : share) {
      if (!micro_batch.is_number_unsigned() || micro_batch.get<std::uint64_t>() > INT32_MAX) return false;
    }
  }
  return true;
}

// Each of the step's micro-batches once; what is wrong, or empty.
std::string fault_of(const Shares& shares, int replicas, int micro_batches) {
  if (static_cast<int>(shares.size()) != replicas) {
    return absl::StrCat("is of ", shares.size(), " replicas, this run has ", replicas, ": set parallelism.data_parallel = ", shares.size());
  }
  std::vector<bool> seen(static_cast<std::size_t>(micro_batches), false);
  std::int64_t count = 0;
  for (const auto& share : shares) {
    for (const std::int32_t micro_batch : share) {
      if (micro_batch >= micro_batches) {
        return absl::StrCat("names micro-batch ", micro_batch, ", this run's steps have ", micro_batches,
                            ": set training.global_batch and training.micro_batch as in that run");
      }
      if (seen[static_cast<std::size_t>(micro_batch)]) return absl::StrCat("names micro-batch ", micro_batch, " twice");
      seen[static_cast<std::size_t>(micro_batch)] = true;
      ++count;
    }
  }
  if (count == micro_batches) return {};
  return absl::StrCat("has ", count, " micro-batches, this run's steps have ", micro_batches,
                      ": set training.global_batch and training.micro_batch as in that run");
}

}  // namespace

StatusOr<AssignmentRecord> AssignmentRecord::read(const std::string& path, StepId first, StepId last, int replicas, int micro_batches) {
  TROUPE_ASSIGN_OR_RETURN(const std::string text, device::read_file(path));
  AssignmentRecord record;
  int number = 0;
  for (const auto& line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    ++number;
    const auto refuse = [&](const auto&... what) {
      return absl::InvalidArgumentError(absl::StrCat("parallelism.replay = ", path, ":", number, ": ", what...));
    };
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) {
      return refuse("no line of metrics: name the metrics.jsonl of a run with parallelism.balance = \"pull\"");
    }
    const StepId step(json["step"].get<std::int64_t>());
    if (step < first || step > last) continue;
    if (!json.contains("assigned") || !is_assignment(json["assigned"])) {
      return refuse("step ", step.value, " has no \"assigned\": it is of a run without parallelism.balance = \"pull\"");
    }
    auto shares = json["assigned"].get<Shares>();
    if (const auto fault = fault_of(shares, replicas, micro_batches); !fault.empty()) {
      return refuse("the assignment of step ", step.value, " ", fault);
    }
    record.steps_[step] = std::move(shares);
  }
  for (StepId step = first; step <= last; ++step.value) {
    if (record.steps_.contains(step)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "parallelism.replay = ", path, ": no step ", step.value, ", this run is of the steps ", first.value, " to ", last.value,
        step > first ? absl::StrCat("; set training.steps = ", step.value - 1, ", or name a longer run")
                     : std::string("; name the run they are of")));
  }
  return record;
}

const std::vector<std::int32_t>& AssignmentRecord::share(StepId step, int replica) const {
  const auto found = steps_.find(step);
  TROUPE_CHECK(found != steps_.end()) << "step " << step << " was not read from the recording";
  return found->second.at(static_cast<std::size_t>(replica));
}

}  // namespace troupe::actors
