#include "runtime/trace/training_probe.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace troupe::trace {
namespace {

std::optional<double> finite(double value) { return std::isfinite(value) ? std::optional(value) : std::nullopt; }

}  // namespace

TrainingProbe::TrainingProbe(Ticks ticks, const Job& job) : ticks_(ticks), job_(job) {
  totals_.changed_ns = job.begun_ns;
  totals_.tokens = job.tokens;
  seen_.store(totals_);
}

void TrainingProbe::opened(std::int64_t now_ns) {
  auto& gap_ns = totals_.closed == 0 ? totals_.startup_ns : totals_.between_ns;
  gap_ns += now_ns - totals_.changed_ns;
  totals_.open = true;
  totals_.changed_ns = now_ns;
  seen_.store(totals_);
}

void TrainingProbe::closed(const Step& step, std::int64_t now_ns) {
  auto& t = totals_;
  const std::int64_t took_ns = now_ns - t.changed_ns;
  std::int64_t left_ns = took_ns;
  const auto take = [&left_ns](std::int64_t& total_ns, std::int64_t ns) {
    const std::int64_t taken_ns = std::clamp<std::int64_t>(ns, 0, left_ns);
    total_ns += taken_ns;
    left_ns -= taken_ns;
  };
  take(t.data_wait_ns, step.data_wait_ns);
  take(t.checkpoint_wait_ns, step.checkpoint_wait_ns);
  take(t.evaluation_wait_ns, step.evaluation_wait_ns);
  if (step.skipped) take(t.skipped_ns, left_ns);
  t.steps_ns += took_ns;
  t.skipped += step.skipped ? 1 : 0;
  t.tokens += step.tokens;
  t.kept_tokens += step.skipped ? 0 : step.tokens;
  t.recent_ns[static_cast<std::size_t>(t.closed % kRecent)] = took_ns;
  const auto bound = std::ranges::find_if(kStepBoundsMs, [took_ns](std::int64_t ms) { return took_ns <= ms * 1'000'000; });
  ++t.step_times[static_cast<std::size_t>(bound - kStepBoundsMs.begin())];
  ++t.closed;
  t.last = step;
  t.last_ns = took_ns;
  t.open = false;
  t.changed_ns = now_ns;
  seen_.store(t);
}

void TrainingProbe::evaluated(std::int64_t step, double loss) {
  totals_.evaluated_step = step;
  totals_.evaluated_loss = loss;
  seen_.store(totals_);
}

TrainingRow TrainingProbe::row() const {
  const std::int64_t now_ns = ticks_.now_ns();
  const Totals t = seen_.load();
  const std::int64_t since_ns = std::max<std::int64_t>(0, now_ns - t.changed_ns);
  std::vector<std::int64_t> recent(t.recent_ns.begin(), t.recent_ns.begin() + std::min<std::int64_t>(t.closed, kRecent));
  std::ranges::sort(recent);
  const std::int64_t median_ns = recent.empty() ? 0 : recent[recent.size() / 2];
  const std::int64_t open_ns = t.open ? since_ns : 0;
  const std::int64_t overdue_ns = std::max<std::int64_t>(0, open_ns - median_ns);
  const std::int64_t startup_ns = t.startup_ns + (!t.open && t.closed == 0 ? since_ns : 0);
  const std::int64_t between_ns = t.between_ns + (!t.open && t.closed > 0 ? since_ns : 0);
  const double step_s = seconds(t.last_ns);
  const auto per_step_s = [&](double amount) { return step_s > 0 ? amount / step_s : 0; };

  TrainingRow row;
  row.step = job_.first_step - 1 + t.closed;
  row.steps = job_.steps;
  row.steps_here = t.closed;
  if (t.closed > 0) {
    row.loss = finite(t.last.loss);
    row.grad_norm = finite(t.last.grad_norm);
    row.learning_rate = t.last.learning_rate;
  }
  if (t.evaluated_step >= 0) row.validation_loss = finite(t.evaluated_loss);
  row.validation_step = t.evaluated_step;
  row.tokens = t.tokens;
  row.tokens_here = t.tokens - job_.tokens;
  row.effective_tokens = t.kept_tokens;
  row.tokens_per_s = per_step_s(job_.tokens_per_step);
  row.mfu_ratio = job_.peak_flops_per_s > 0 ? per_step_s(job_.flops_per_step) / job_.peak_flops_per_s : 0;
  row.step_ns = t.last_ns;
  row.median_step_ns = median_ns;
  row.data_wait_ns = t.last.data_wait_ns;
  row.checkpoint_wait_ns = t.last.checkpoint_wait_ns;
  row.step_open_ns = open_ns;
  row.skipped_steps = t.skipped;
  row.restarts = job_.first_step > 1 ? 1 : 0;
  row.badput = {{"startup", startup_ns},
                {"data_wait", t.data_wait_ns},
                {"checkpoint_wait", t.checkpoint_wait_ns},
                {"evaluation_wait", t.evaluation_wait_ns},
                {"skipped", t.skipped_ns},
                {"between_steps", between_ns},
                {"overdue", overdue_ns}};
  row.wall_ns = startup_ns + between_ns + t.steps_ns + open_ns;
  row.useful_ns = row.wall_ns;
  for (const auto& loss : row.badput) row.useful_ns -= loss.spent_ns;
  row.goodput_ratio = row.wall_ns > 0 ? static_cast<double>(row.useful_ns) / static_cast<double>(row.wall_ns) : 0;
  for (const std::int64_t ms : kStepBoundsMs) row.step_times.bounds_s.push_back(static_cast<double>(ms) / 1e3);
  row.step_times.counts.assign(t.step_times.begin(), t.step_times.end());
  row.steps_ns = t.steps_ns;
  return row;
}

}  // namespace troupe::trace
