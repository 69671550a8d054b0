#include "actors/train/reporter.h"

#include <cmath>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/device/shown.h"

namespace troupe::actors {
namespace {

// Steps that wait for a terminal that takes nothing. Those after them are not shown.
constexpr int kUnshownMost = 256;

std::string number(double value) { return std::isfinite(value) ? absl::StrFormat("%.9g", value) : "null"; }

std::string bar(double share, int width) {
  const int full = static_cast<int>(share * width);
  return std::string(static_cast<std::size_t>(full), '#') + std::string(static_cast<std::size_t>(width - full), '.');
}

std::string duration(double s) {
  const auto whole = static_cast<std::int64_t>(s);
  if (whole >= 3600) return absl::StrFormat("%dh%02dm", whole / 3600, whole / 60 % 60);
  return absl::StrFormat("%dm%02ds", whole / 60, whole % 60);
}

}  // namespace

std::string MetricsLine::to_json() const {
  const auto& r = report;
  std::string text = absl::StrFormat(
      R"({"step": %d, "loss": %s, "grad_norm": %s, "lr": %s, "tokens": %d, "tokens_per_s": %s, "mfu": %s, "step_s": %s, )"
      R"("data_wait_s": %s, "checkpoint_wait_s": %s, "sample_hash": "%016x", "skipped": %s)",
      r.step.value, number(r.loss), number(r.grad_norm), number(r.learning_rate), tokens, number(tokens_per_s), number(mfu),
      number(seconds(r.step_ns)), number(seconds(r.data_wait_ns)), number(seconds(r.checkpoint_wait_ns)), r.sample_hash, r.skipped ? "true" : "false");
  if (r.validation_loss) absl::StrAppend(&text, R"(, "val_loss": )", number(*r.validation_loss));
  if (!r.assigned.empty()) {
    const auto share = [](std::string* out, const auto& micro_batches) {
      absl::StrAppend(out, "[", absl::StrJoin(micro_batches, ", "), "]");
    };
    absl::StrAppend(&text, R"(, "assigned": [)", absl::StrJoin(r.assigned, ", ", share), "]");
  }
  return text + "}";
}

Status cut_metrics(const std::string& path, StepId last) {
  if (!std::filesystem::exists(path)) return ok();
  TROUPE_ASSIGN_OR_RETURN(const std::string text, device::read_file(path));
  std::string kept;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;  // a line cut short by a kill
    long long step = 0;
    const std::string line = text.substr(begin, end + 1 - begin);
    if (std::sscanf(line.c_str(), R"({"step": %lld,)", &step) != 1 || step > last.value) break;
    kept += line;
    begin = end + 1;
  }
  if (kept == text) return ok();
  TROUPE_RETURN_IF_ERROR(device::write_file_durably(path + ".cut", kept));
  return device::rename_durably(path + ".cut", path);
}

Reporter::Reporter(Setup setup) : setup_(std::move(setup)), tokens_(setup_.tokens) {
  if (!setup_.tensorboard.empty()) tensorboard_.emplace(setup_.tensorboard, setup_.plan.placement.world(), setup_.after);
  on(&Reporter::closed);
  on(&Reporter::line_written);
}

Reporter::~Reporter() = default;

void Reporter::closed(StepClosed message) {
  tokens_ += message.report.tokens;
  const double step_s = std::max(1e-9, seconds(message.report.step_ns));
  const MetricsLine line{.report = std::move(message.report), .tokens = tokens_,
                         .tokens_per_s = static_cast<double>(setup_.plan.tokens_per_step()) / step_s,
                         .mfu = setup_.peak_flops_per_s > 0 ? setup_.plan.flops_per_step / setup_.plan.placement.world() / step_s / setup_.peak_flops_per_s : 0};
  recent_step_s_ = recent_step_s_ == 0 ? step_s : 0.9 * recent_step_s_ + 0.1 * step_s;
  setup_.metrics.notify(device::shown(setup_.metrics, {.what = "write metrics", .step = line.report.step.value}, [this, reporter = self(), ledger = ledger_, step = line.report.step, line = MetricsLine(line)](device::StreamContext&) {
    write(line);
    reporter.send(LineWritten{});  // before the ledger may end the job
    ledger.send(StepWritten{step});
  }));
  ++unwritten_;
  set_state(trace::State::kRunning, metrics_name_, line.report.step.value);
  show(line);
  if (setup_.on_step) setup_.on_step(line.report);
}

void Reporter::line_written(LineWritten) {
  if (--unwritten_ == 0) set_state(trace::State::kIdle);
}

void Reporter::write(const MetricsLine& line) {
  const Status written = write_line(line.to_json() + "\n");
  if (!written.ok() && !std::exchange(complained_, true)) {
    log_error(absl::StrCat("metrics are not written any more, training goes on: ", std::string(written.message())));
  }
  const Status shown = tensorboard_ && !complained_of_tensorboard_ ? tensorboard_->write(line) : ok();
  if (shown.ok()) return;
  complained_of_tensorboard_ = true;  // a record that is cut short ends the file
  log_error(absl::StrCat("TensorBoard's file is not written any more, training goes on: ", std::string(shown.message())));
}

Status Reporter::write_line(const std::string& line) {
  if (!file_) {
    TROUPE_ASSIGN_OR_RETURN(file_, device::FileWriter::append(setup_.metrics_path));
  }
  return file_->write(line);
}

void Reporter::show(const MetricsLine& line) {
  const auto& r = line.report;
  std::string warning = r.skipped ? absl::StrCat("step ", r.step.value, " skipped: ", r.skip_reason) : "", text = console_text(line);
  if ((warning.empty() && text.empty()) || unshown_ >= kUnshownMost) return;
  ++unshown_;
  setup_.terminal.notify(device::shown(setup_.terminal, {.what = "show step", .step = r.step.value}, [this, warning = std::move(warning), text = std::move(text)](device::StreamContext&) {
    if (!warning.empty()) log_warning(warning);
    std::FILE* const console = setup_.console == Console::kBar ? stderr : stdout;
    std::fputs(text.c_str(), console);
    std::fflush(console);
    --unshown_;
  }));
}

// Empty where nothing is to be shown.
std::string Reporter::console_text(const MetricsLine& line) const {
  const auto& r = line.report;
  const bool marks = r.step.value == setup_.steps || r.validation_loss;  // stays on the terminal
  const bool bar_shown = setup_.console == Console::kBar;
  if (setup_.console == Console::kNone || (!bar_shown && r.step.value % setup_.log_every != 0 && !marks)) return "";
  std::string text = absl::StrFormat("loss %.4f  norm %.3f  lr %.3g  %.0f tokens/s  mfu %.1f %%", r.loss, r.grad_norm, r.learning_rate,
                                     line.tokens_per_s, 100 * line.mfu);
  if (r.skipped) absl::StrAppend(&text, "  skipped");
  if (r.validation_loss) absl::StrAppend(&text, absl::StrFormat("  validation %.4f", *r.validation_loss));
  if (!bar_shown) return absl::StrFormat("step %d/%d  %s\n", r.step.value, setup_.steps, text);
  const double left_s = static_cast<double>(setup_.steps - r.step.value) * recent_step_s_;
  const double share = static_cast<double>(r.step.value) / static_cast<double>(std::max<std::int64_t>(1, setup_.steps));
  return absl::StrFormat("\r\033[K[%s] %d/%d  %s  left %s%s", bar(share, 24), r.step.value, setup_.steps, text, duration(left_s), marks ? "\n" : "");
}

}  // namespace troupe::actors
