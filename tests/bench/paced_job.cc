#include "tests/bench/paced_job.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "actors/plan/model_of.h"
#include "kernels/cpu/cpu.h"
#include "runtime/base/rng.h"

namespace troupe::bench {
namespace {

// llm.c's format (FORMATS: header of 256 int32, then uint16 tokens).
void write_random_tokens(const std::string& path, std::int64_t tokens, std::int64_t vocabulary) {
  std::ofstream file(path, std::ios::binary);
  std::vector<std::int32_t> header(256);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = static_cast<std::int32_t>(tokens);
  file.write(reinterpret_cast<const char*>(header.data()), 1024);
  const RandomStream random({.seed = 3});
  std::vector<std::uint16_t> ids(static_cast<std::size_t>(tokens));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::uint16_t>(random.at(i) % static_cast<std::uint32_t>(vocabulary));
  file.write(reinterpret_cast<const char*>(ids.data()), static_cast<std::streamsize>(2 * ids.size()));
}

}  // namespace

StatusOr<std::unique_ptr<PacedJob>> PacedJob::create(const PacedOptions& options) {
  std::unique_ptr<PacedJob> made(new PacedJob);
  TROUPE_RETURN_IF_ERROR(made->start(options));
  return made;
}

Status PacedJob::start(const PacedOptions& o) {
  std::string pattern = (std::filesystem::temp_directory_path() / "troupe-bench-XXXXXX").string();
  TROUPE_CHECK(mkdtemp(pattern.data()) != nullptr) << pattern;
  folder_ = pattern;
  const std::string config = absl::StrCat(
      "[job]\noutput = \"", folder_, "/run\"\n[device]\nthreads = ", o.threads, "\n[model]\nname = \"", o.model, "\"\n[data]\ntrain = \"",
      folder_, "/tokens.bin\"\ndocument_mask = false\n[training]\nsteps = 1000000\nseq_len = ", o.seq_len, "\nmicro_batch = ", o.batch,
      "\nglobal_batch = ", o.batch, "\ndtype = \"", o.dtype, "\"\n[parallelism]\npipeline = ", o.stages, "\n[checkpoint]\ninterval = ",
      o.save_every, "\nkeep_latest_k = 1\n");
  TROUPE_ASSIGN_OR_RETURN(const auto job, plan::parse_job_config(config, "the bench's config", {}));
  TROUPE_ASSIGN_OR_RETURN(const auto model, plan::model_of(job));
  const auto cluster = plan::Cluster::of_this_machine(job);
  TROUPE_ASSIGN_OR_RETURN(auto planned, plan::make_plan(job, cluster, kernels::cpu::table()));
  TROUPE_RETURN_IF_ERROR(plan::fits(planned, cluster));
  write_random_tokens(folder_ + "/tokens.bin", 1 << 20, std::min<std::int64_t>(model.vocabulary, 1 << 16));
  actors::JobOptions options{.save = o.save_every > 0, .console = actors::Reporter::Console::kNone};
  options.hold_after = StepId(0);
  options.on_step = [this](const actors::StepReport& report) {
    {
      std::lock_guard lock(mutex_);
      report_ = report;
    }
    reported_.notify_all();
  };
  TROUPE_ASSIGN_OR_RETURN(
      job_, actors::TrainingJob::create(job, std::move(planned), actors::World::on_this_machine(kernels::cpu::table(), clock_), options));
  job_->start();
  return ok();
}

PacedJob::~PacedJob() {
  job_.reset();
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

actors::StepReport PacedJob::step() {
  job_->hold_after(StepId(++done_));
  std::unique_lock lock(mutex_);
  reported_.wait(lock, [this] { return report_ && report_->step.value == done_; });
  return *std::exchange(report_, std::nullopt);
}

std::int64_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    long long kib = 0;
    if (std::sscanf(line.c_str(), "VmHWM: %lld kB", &kib) == 1) return kib * 1024;
  }
  return 0;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double spread(std::vector<double> values) {
  if (values.size() < 2) return 0;
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) { return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)]; };
  return (at(0.75) - at(0.25)) / 2 / median(values);
}

}  // namespace troupe::bench
