#include "runtime/trace/prometheus.h"

#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/trace/straggler.h"

namespace troupe::trace {
namespace {

using MetricLabels = std::vector<std::pair<const char*, std::string>>;

std::string in_label(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') out += "\\n";
    else out += c;
  }
  return out;
}

std::string sample_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::array<char, 32> digits;
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr};
}
std::string sample_text(std::int64_t value) { return absl::StrCat(value); }

double in_seconds_of(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

// One metric: its samples, in the order in which their labels came first.
class Metric {
 public:
  Metric(std::string name, const char* type, const char* help) : name_(std::move(name)), type_(type), help_(help) {}

  template <class T>
  Metric& add(const MetricLabels& labels, T value, const char* suffix = "") {
    std::string key = absl::StrCat(name_, suffix);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      absl::StrAppend(&key, i == 0 ? "{" : ",", labels[i].first, "=\"", in_label(labels[i].second), "\"");
    }
    if (!labels.empty()) key += "}";
    const auto [at, is_new] = places_.emplace(key, samples_.size());
    if (is_new) samples_.push_back({std::move(key)});
    Sample& sample = samples_[at->second];
    if constexpr (std::integral<T>) {
      sample.count += value;
    } else {
      sample.is_real = true;
      sample.real += value;
    }
    return *this;
  }
  // Nothing where there are no samples.
  void append_to(std::string& out) const {
    if (samples_.empty()) return;
    absl::StrAppend(&out, "# HELP ", name_, " ", help_, "\n# TYPE ", name_, " ", type_, "\n");
    for (const auto& sample : samples_) {
      absl::StrAppend(&out, sample.key, " ", sample.is_real ? sample_text(sample.real) : sample_text(sample.count), "\n");
    }
  }

 private:
  struct Sample {
    std::string key{};
    bool is_real = false;
    double real = 0;
    std::int64_t count = 0;
  };
  const std::string name_;
  const char* const type_;
  const char* const help_;
  std::vector<Sample> samples_;
  std::unordered_map<std::string, std::size_t> places_;
};

class Page {
 public:
  Metric& gauge(const char* name, const char* help) { return add(name, "gauge", help); }
  Metric& counter(const char* name, const char* help) { return add(name, "counter", help); }
  Metric& histogram(const char* name, const char* help) { return add(name, "histogram", help); }
  std::string text() const {
    std::string out;
    for (const auto& metric : metrics_) metric->append_to(out);
    return out;
  }

 private:
  Metric& add(const char* name, const char* type, const char* help) {
    metrics_.push_back(std::make_unique<Metric>(absl::StrCat("troupe_", name), type, help));
    return *metrics_.back();
  }
  std::vector<std::unique_ptr<Metric>> metrics_;
};

MetricLabels of_rank(const RankReport& report) { return {{"rank", absl::StrCat(report.rank)}}; }

void add_ranks(Page& page, std::span<const RankReport> reports) {
  auto& up = page.gauge("rank_up", "Whether the rank answered this scrape.");
  auto& memory = page.gauge("memory_bytes", "Resident memory of the rank's process.");
  auto& peak = page.gauge("memory_peak_bytes", "Most resident memory that the rank's process ever had.");
  auto& collectives = page.gauge("open_collectives", "Collectives that the rank has entered and that are not done there.");
  for (const auto& report : reports) {
    up.add(of_rank(report), std::int64_t{report.answered});
    if (!report.answered) continue;
    memory.add(of_rank(report), report.memory_bytes);
    peak.add(of_rank(report), report.memory_peak_bytes);
    collectives.add(of_rank(report), static_cast<std::int64_t>(report.collectives.size()));
  }
}

void add_streams(Page& page, std::span<const RankReport> reports) {
  auto& busy = page.counter("stream_busy_seconds_total", "Time that the stream has worked.");
  auto& queued = page.gauge("stream_queued_operations", "Operations that wait in the stream.");
  for (const auto& report : reports) {
    for (const auto& stream : report.streams) {
      const MetricLabels labels{{"rank", absl::StrCat(report.rank)}, {"stream", stream.name}};
      busy.add(labels, in_seconds_of(stream.busy_ns));
      queued.add(labels, stream.queued);
    }
  }
}

void add_actors(Page& page, std::span<const RankReport> reports) {
  auto& depth = page.gauge("mailbox_depth", "Messages in the actor's mailbox.");
  auto& oldest = page.gauge("mailbox_oldest_seconds", "Age of the oldest message in the actor's mailbox.");
  auto& handled = page.counter("messages_handled_total", "Messages that the actor has handled.");
  auto& handling = page.counter("handling_seconds_total", "Time that the actor has spent in handlers.");
  auto& dead = page.counter("dead_letters_total", "Messages to the actor that are never handled.");
  for (const auto& report : reports) {
    for (const auto& actor : report.snapshot.actors) {
      const MetricLabels labels{{"rank", absl::StrCat(report.rank)}, {"actor", actor.name}};
      depth.add(labels, actor.depth);
      oldest.add(labels, in_seconds_of(actor.oldest_ns));
      handled.add(labels, actor.handled);
      handling.add(labels, in_seconds_of(actor.handling_ns));
      dead.add(labels, actor.dead);
    }
  }
}

void add_edges(Page& page, std::span<const RankReport> reports) {
  auto& credits = page.gauge("edge_credits", "Credits of the edge.");
  auto& free = page.gauge("edge_free_credits", "Credits that the edge's sender can take now.");
  auto& sent = page.counter("edge_messages_total", "Messages sent over the edge.");
  auto& bytes = page.counter("edge_bytes_total", "Bytes sent over the edge.");
  for (const auto& report : reports) {
    for (const auto& edge : report.snapshot.edges) {
      const MetricLabels labels{{"rank", absl::StrCat(report.rank)}, {"edge", edge.name}};
      credits.add(labels, edge.capacity);
      free.add(labels, edge.free);
      sent.add(labels, edge.sent);
      bytes.add(labels, edge.bytes);
    }
  }
}

void add_step_times(Page& page, const TrainingRow& training) {
  auto& durations = page.histogram("step_duration_seconds", "Time from the opening of a step to its end.");
  std::int64_t up_to = 0;
  for (std::size_t i = 0; i < training.step_times.counts.size(); ++i) {
    const bool is_last = i >= training.step_times.bounds_s.size();
    durations.add({{"le", is_last ? "+Inf" : sample_text(training.step_times.bounds_s[i])}}, up_to += training.step_times.counts[i], "_bucket");
    if (is_last) break;
  }
  durations.add({}, in_seconds_of(training.steps_ns), "_sum");
  durations.add({}, training.steps_here, "_count");
}

void add_training(Page& page, const TrainingRow& training) {
  // One that has lost its way shows NaN, one that has not begun nothing.
  const auto add_finite = [&](Metric& metric, const std::optional<double>& value, bool known) {
    if (known) metric.add({}, value.value_or(std::nan("")));
  };
  const bool begun = training.steps_here > 0;
  page.gauge("step", "The last step that is closed.").add({}, training.step);
  page.gauge("steps", "The step at which the run ends.").add({}, training.steps);
  add_finite(page.gauge("loss", "Training loss of the last step, nats per token."), training.loss, begun);
  add_finite(page.gauge("grad_norm", "Norm of the gradient of the last step, before clipping."), training.grad_norm, begun);
  add_finite(page.gauge("validation_loss", "The last validation loss, nats per token."), training.validation_loss, training.validation_step >= 0);
  page.gauge("learning_rate", "Learning rate of the last step.").add({}, training.learning_rate);
  page.counter("tokens_total", "Unmasked tokens of the steps closed by this process.").add({}, training.tokens_here);
  page.counter("effective_tokens_total", "Of these, those of steps that were not skipped.").add({}, training.effective_tokens);
  page.gauge("mfu_ratio", "Flops of the last step, per rank and second, over the peak of the machine.").add({}, training.mfu_ratio);
  page.gauge("goodput_ratio", "Useful time over wall time since the process began.").add({}, training.goodput_ratio);
  page.counter("wall_seconds_total", "Time since the process began.").add({}, in_seconds_of(training.wall_ns));
  auto& badput = page.counter("badput_seconds_total", "Time that was lost, by what it was lost to.");
  for (const auto& loss : training.badput) {
    // Goes back to 0 when the step is closed: no counter.
    if (loss.type == "overdue") page.gauge("step_overdue_seconds", "How much longer the open step has lasted than the median one.").add({}, in_seconds_of(loss.spent_ns));
    else badput.add({{"type", loss.type}}, in_seconds_of(loss.spent_ns));
    if (loss.type == "checkpoint_wait")
      page.counter("checkpoint_stall_seconds_total", "Time that computing stood waiting for a snapshot.").add({}, in_seconds_of(loss.spent_ns));
  }
  page.gauge("step_open_seconds", "Since the open step was opened; 0: none is open.").add({}, in_seconds_of(training.step_open_ns));
  page.counter("skipped_steps_total", "Steps whose update was not made.").add({}, training.skipped_steps);
  add_step_times(page, training);
}

}  // namespace

std::string to_prometheus(const JobLabels& job, std::span<const RankReport> reports) {
  Page page;
  page.gauge("job_info", "The job; its value is always 1.").add({{"run", job.run}, {"output", job.output}}, std::int64_t{1});
  page.gauge("start_time_seconds", "When the job was started, since 1970.").add({}, job.started_unix_s);
  const auto straggler = find_straggler(reports);
  page.gauge("straggler_rank", "The rank that computes slower than those with the same work; -1: none.").add({}, std::int64_t{straggler ? straggler->rank : -1});
  auto& restarts = page.counter("restarts_total", "How often something was started again: the job from a checkpoint, actors by their supervisor.");
  add_ranks(page, reports);
  add_streams(page, reports);
  add_actors(page, reports);
  add_edges(page, reports);
  std::int64_t actors = 0;
  const TrainingRow* training = nullptr;
  for (const auto& report : reports) {
    for (const auto& actor : report.snapshot.actors) actors += actor.restarts;
    if (report.training) training = &*report.training;
  }
  restarts.add({{"domain", "actor"}}, actors);
  if (training != nullptr) {
    restarts.add({{"domain", "job"}}, training->restarts);
    add_training(page, *training);
  }
  return page.text();
}

}  // namespace troupe::trace
