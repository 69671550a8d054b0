#include "actors/train/tensorboard.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actors/train/event_file.h"
#include "actors/train/reporter.h"
#include "runtime/base/clock.h"
#include "runtime/trace/process_memory.h"

namespace troupe::actors {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

double in_gib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

}  // namespace

Status Tensorboard::open(double unix_s) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot make the folder ", folder_, ": ", error.message()));
  TROUPE_ASSIGN_OR_RETURN(auto file, device::FileWriter::append(absl::StrCat(folder_, "/", event_file_name(unix_s, host_name(), getpid(), after_.value))));
  TROUPE_RETURN_IF_ERROR(file.write(version_record(unix_s)));
  if (after_.value > 0) {
    TROUPE_RETURN_IF_ERROR(file.write(restart_record(unix_s, after_.value)));
  }
  file_ = std::move(file);
  return ok();
}

Status Tensorboard::write(const MetricsLine& line) {
  const double now_s = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  if (!file_) {
    TROUPE_RETURN_IF_ERROR(open(now_s));
  }
  const auto& step = line.report;
  const double step_s = seconds(step.step_ns), data_s = seconds(step.data_wait_ns);
  const auto memory = trace::process_memory();
  std::vector<EventScalar> scalars{{"loss_metrics/global_avg_loss", step.loss},
                                   {"grad_norm", step.grad_norm},
                                   {"lr", step.learning_rate},
                                   {"n_tokens_seen", static_cast<double>(line.tokens)},
                                   {"throughput(tps)", line.tokens_per_s / ranks_},
                                   {"mfu(%)", 100 * line.mfu},
                                   {"time_metrics/end_to_end(s)", step_s},
                                   {"time_metrics/data_loading(s)", data_s},
                                   {"time_metrics/data_loading(%)", step_s > 0 ? 100 * data_s / step_s : 0},
                                   {"memory/resident(GiB)", in_gib(memory.bytes)},
                                   {"memory/max_resident(GiB)", in_gib(memory.peak_bytes)}};
  if (step.validation_loss) scalars.push_back({"validation_metrics/loss", *step.validation_loss});
  return file_->write(scalars_record(now_s, step.step.value, scalars));
}

}  // namespace troupe::actors
