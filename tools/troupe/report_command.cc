#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "models/checkpoint/directory.h"
#include "models/flops.h"
#include "tools/troupe/commands.h"

namespace troupe::tool {
namespace {

struct Totals {
  std::int64_t steps = 0, skipped = 0;
  double first_loss = 0, last_loss = 0, first_validation = -1, last_validation = -1;
  // Parts of the steps' time; no instant is in two of them, as in runtime/trace/training_probe.h.
  double step_s = 0, data_wait_s = 0, checkpoint_wait_s = 0, skipped_s = 0;
  double kept_tokens = 0;
  std::vector<double> tokens_per_s, mfu, mfu_seconds;  // the last: mfu * step_s, which is the step's flops over the peak
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

StatusOr<Totals> read_totals(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": no such file: is this a run's output folder?"));
  Totals totals;
  double tokens_before = 0;
  for (std::string text; std::getline(file, text);) {
    const auto line = nlohmann::json::parse(text, nullptr, false);
    if (line.is_discarded()) return absl::DataLossError(absl::StrCat(path, ":", totals.steps + 1, ": not a line of JSON"));
    const auto number = [&](const char* key) { return line.contains(key) && line[key].is_number() ? line[key].get<double>() : std::nan(""); };
    if (totals.steps++ == 0) totals.first_loss = number("loss");
    totals.last_loss = number("loss");
    if (line.contains("val_loss")) {
      totals.last_validation = number("val_loss");
      if (totals.first_validation < 0) totals.first_validation = totals.last_validation;
    }
    const bool skipped = line.value("skipped", false);
    totals.skipped += skipped;
    totals.step_s += number("step_s");
    double left_s = number("step_s");
    const auto take = [&left_s](double& total_s, double spent_s) {
      const double taken_s = std::clamp(spent_s, 0.0, left_s);
      total_s += taken_s;
      left_s -= taken_s;
    };
    take(totals.data_wait_s, number("data_wait_s"));
    take(totals.checkpoint_wait_s, number("checkpoint_wait_s"));
    if (skipped) take(totals.skipped_s, left_s);
    if (!skipped) totals.kept_tokens += number("tokens") - tokens_before;
    tokens_before = number("tokens");
    totals.tokens_per_s.push_back(number("tokens_per_s"));
    totals.mfu.push_back(number("mfu"));
    totals.mfu_seconds.push_back(number("mfu") * number("step_s"));
  }
  if (totals.steps == 0) return absl::FailedPreconditionError(absl::StrCat(path, " has no step yet"));
  return totals;
}

}  // namespace

Status report(const std::string& out) {
  TROUPE_ASSIGN_OR_RETURN(const Totals t, read_totals(out + "/metrics.jsonl"));
  TROUPE_ASSIGN_OR_RETURN(const Planned planned, load_plan({.config = out + "/config.resolved.toml", .overrides = {}}));
  const auto bits = [](double loss) { return loss / std::log(2.0); };
  const double speed = median(t.tokens_per_s), mfu = median(t.mfu);
  std::printf("steps                %lld, %lld skipped\n", static_cast<long long>(t.steps), static_cast<long long>(t.skipped));
  std::printf("training loss        first %.4f, last %.4f nats a token (byte models: %.3f, %.3f bits per byte)\n", t.first_loss, t.last_loss,
              bits(t.first_loss), bits(t.last_loss));
  if (t.last_validation >= 0) {
    std::printf("validation loss      first %.4f, last %.4f (%.3f, %.3f bits per byte)\n", t.first_validation, t.last_validation,
                bits(t.first_validation), bits(t.last_validation));
  }
  std::printf("speed                %.0f tokens/s, mfu %.1f %%, medians over steps\n", speed, 100 * mfu);
  std::printf("  mfu = %s, / step_s / peak\n  peak = the best matrix product of the compute type, measured when the run starts: %.0f GFLOP/s\n",
              models::training_flops_formula().c_str(), planned.plan.flops_per_step / median(t.mfu_seconds) / 1e9);
  std::printf("effective tokens/s   %.0f = unmasked tokens of kept steps / time of all steps\n", t.kept_tokens / t.step_s);
  const auto share = [&](double spent_s) { return 100 * spent_s / t.step_s; };
  std::printf("goodput              %.2f %%: of %.1f s in steps, those that were kept, without their waits\n",
              share(t.step_s - t.data_wait_s - t.checkpoint_wait_s - t.skipped_s), t.step_s);
  std::printf("  lost to            data %.2f %%, checkpoints %.2f %%, skipped steps %.2f %%\n", share(t.data_wait_s), share(t.checkpoint_wait_s), share(t.skipped_s));
  std::printf("  not told apart     a step's wait for validation; not in it the start, the time between steps: troupe inspect job has them while the job runs\n");
  const auto newest = checkpoint::newest_complete(out);
  if (newest.ok()) {
    std::printf("checkpoint           %s\n", newest->path.c_str());
    std::printf("try next             build/release/troupe generate --checkpoint %s --prompt \"To \"\n"
                "                     build/release/troupe checkpoint inspect %s\n"
                "                     build/release/troupe plan tools/configs/llama3-405b.toml\n",
                out.c_str(), newest->path.c_str());
  }
  return ok();
}

}  // namespace troupe::tool
