#include "tests/bench/paced_job.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
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

StatusOr<std::string> prepare_folder(const PacedOptions& options) {
  TROUPE_ASSIGN_OR_RETURN(const auto planned, plan_of(options));
  std::string pattern = (std::filesystem::temp_directory_path() / "troupe-bench-XXXXXX").string();
  TROUPE_CHECK(mkdtemp(pattern.data()) != nullptr) << pattern;
  write_random_tokens(pattern + "/tokens.bin", 1 << 20, std::min<std::int64_t>(planned.plan.model.vocabulary, 1 << 16));
  return pattern;
}

StatusOr<PacedPlan> plan_of(const PacedOptions& o) {
  std::string config = absl::StrCat(
      "[job]\noutput = \"", o.folder, "/run\"\n[device]\nthreads = ", o.threads, "\n[model]\nname = \"", o.model, "\"\n[data]\ntrain = \"",
      o.folder, "/tokens.bin\"\ndocument_mask = false\n[training]\nsteps = 1000000\nseq_len = ", o.seq_len, "\nmicro_batch = ", o.batch,
      "\nglobal_batch = ", o.batch * o.micro_batches, "\ndtype = \"", o.dtype, "\"\n[checkpoint]\ninterval = ", o.save_every,
      "\nkeep_latest_k = 1\n[parallelism]\npipeline = ", o.stages, "\ndata_parallel = ", o.replicas, "\nzero = ", o.zero, "\n");
  if (!o.balance.empty()) absl::StrAppend(&config, "balance = \"", o.balance, "\"\n");
  std::vector<std::string> overrides;
  for (const auto& setting : o.overrides) overrides.push_back("--" + setting);
  PacedPlan planned;
  TROUPE_ASSIGN_OR_RETURN(planned.job, plan::parse_job_config(config, "the bench's config", overrides));
  TROUPE_ASSIGN_OR_RETURN(planned.plan, plan::make_plan(planned.job, plan::Cluster::of_this_machine(planned.job), kernels::cpu::table()));
  return planned;
}

StatusOr<std::unique_ptr<PacedJob>> PacedJob::create(const PacedOptions& options, comm::Transport* transport) {
  std::unique_ptr<PacedJob> made(new PacedJob);
  TROUPE_RETURN_IF_ERROR(made->start(options, transport));
  return made;
}

Status PacedJob::start(PacedOptions o, comm::Transport* transport) {
  if (o.folder.empty()) {
    TROUPE_ASSIGN_OR_RETURN(folder_, prepare_folder(o));
    o.folder = folder_;
  }
  TROUPE_ASSIGN_OR_RETURN(auto planned, plan_of(o));
  TROUPE_RETURN_IF_ERROR(plan::fits(planned.plan, plan::Cluster::of_this_machine(planned.job)));
  actors::JobOptions options{.save = o.save_every > 0, .console = actors::Reporter::Console::kNone};
  options.hold_after = StepId(0);
  options.on_step = [this](const actors::StepReport& report) {
    {
      std::lock_guard lock(mutex_);
      report_ = report;
    }
    reported_.notify_all();
  };
  auto world = actors::World::on_this_machine(kernels::cpu::table(), clock_);
  world.transport = transport;
  TROUPE_ASSIGN_OR_RETURN(job_, actors::TrainingJob::create(planned.job, std::move(planned.plan), world, options));
  if (!o.inspect_as.empty()) {
    inspector_ = std::make_unique<actors::Inspector>(actors::Inspector::Setup{
        .job = o.inspect_as, .rank = transport ? transport->rank().value : 0, .world = transport ? transport->world() : 1, .program = "bench",
        .ranks = {job_->sources()}, .transport = transport});
  }
  job_->start();
  return ok();
}

PacedJob::~PacedJob() {
  inspector_.reset();
  job_.reset();
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

actors::StepReport PacedJob::step(int count) {
  done_ += count;
  job_->hold_after(StepId(done_));
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

}  // namespace troupe::bench
