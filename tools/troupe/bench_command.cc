#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/bench/kernels.h"
#include "tests/bench/matmul.h"
#include "tests/bench/messages.h"
#include "tests/bench/train.h"
#include "tools/troupe/commands.h"

namespace troupe::tool {
namespace {

using bench::BenchRow;

nlohmann::ordered_json to_json(const std::vector<BenchRow>& rows) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& row : rows) {
    list.push_back({{"name", row.name}, {"value", row.value}, {"unit", row.unit}, {"bar", row.bar}, {"peer", row.peer}, {"definition", row.definition}});
  }
  return {{"rows", list}};
}

void print(const std::vector<BenchRow>& rows, bool json, const nlohmann::ordered_json& keys = nlohmann::ordered_json::object()) {
  if (json) {
    auto text = to_json(rows);
    text.update(keys);
    std::printf("%s\n", text.dump(2).c_str());
    return;
  }
  for (const auto& row : rows) {
    std::printf("%-44s %12.4g %-12s", row.name.c_str(), row.value, row.unit.c_str());
    std::printf(row.bar > 0 ? " bar %-8.3g" : "             ", row.bar);
    std::printf(" %s\n", row.definition.c_str());
  }
}

int all_cores() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

}  // namespace

Run add_bench_roofline(CLI::App& app) {
  struct Arguments {
    bool json = false;
    int threads = all_cores();
    bench::MatmulShapes shapes;
  };
  auto a = std::make_shared<Arguments>();
  app.add_flag("--json", a->json, "rows as JSON");
  app.add_option("--threads", a->threads, "compute threads")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--rounds", a->shapes.rounds, "interleaved rounds")->capture_default_str()->check(CLI::PositiveNumber);
  return [a] {
    print(bench::matmul_rows(a->threads, a->shapes), a->json);
    return ok();
  };
}

Run add_bench_kernels(CLI::App& app) {
  struct Arguments {
    bool json = false;
    int threads = all_cores();
  };
  auto a = std::make_shared<Arguments>();
  app.add_flag("--json", a->json, "rows as JSON");
  app.add_option("--threads", a->threads, "compute threads")->capture_default_str()->check(CLI::PositiveNumber);
  return [a] {
    print(bench::kernel_rows(a->threads), a->json);
    return ok();
  };
}

Run add_bench_messages(CLI::App& app) {
  struct Arguments {
    bool json = false;
    bench::MessagesOptions options;
  };
  auto a = std::make_shared<Arguments>();
  app.add_flag("--json", a->json, "rows as JSON");
  app.add_option("--pairs", a->options.pairs, "interleaved pairs")->capture_default_str()->check(CLI::Range(7, 1000));
  app.add_option("--messages", a->options.messages, "of one run")->capture_default_str()->check(CLI::PositiveNumber);
  return [a] {
    print(bench::bench_messages(a->options), a->json);
    return ok();
  };
}

Run add_bench_train(CLI::App& app) {
  struct Arguments {
    bool json = false;
    bench::TrainOptions options;
  };
  auto a = std::make_shared<Arguments>();
  auto& job = a->options.job;
  job.threads = all_cores();
  if (const char* python = std::getenv("TROUPE_PEER_PYTHON")) a->options.peer_python = python;
  app.add_flag("--json", a->json, "rows as JSON");
  app.add_option("--model", job.model, "a preset")->capture_default_str();
  app.add_option("--batch", job.batch, "sequences a step")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--seq", job.seq_len, "tokens a sequence")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--dtype", job.dtype, "bf16 or fp32")->capture_default_str()->check(CLI::IsMember({"bf16", "fp32"}));
  app.add_option("--threads", job.threads, "compute threads")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--stages", job.stages, "pipeline stages in this process")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--pairs", a->options.pairs, "interleaved pairs")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--compare-stages", a->options.compare_stages, "also measure so many stages over --stages");
  app.add_option("--compare-saves", a->options.compare_saves, "also measure a save every so many steps over none");
  app.add_option("--peer-python", a->options.peer_python, "a Python with torch: PyTorch in turns with us (TROUPE_PEER_PYTHON)");
  app.add_option("--peer-arguments", a->options.peer_arguments, "for tests/bench/peers/pytorch_train.py, such as --dtype fp32 --mode eager")
      ->take_all();
  return [a]() -> Status {
    TROUPE_ASSIGN_OR_RETURN(const auto figures, bench::bench_train(a->options));
    if (a->options.peer_python.empty() && !a->json) {
      std::printf("PyTorch was not measured: neither --peer-python nor TROUPE_PEER_PYTHON names a Python with torch\n");
    }
    print(figures.rows, a->json, {{"tokens_per_s", figures.tokens_per_s}, {"model_flops_per_s", figures.model_flops_per_s},
                                  {"matmul_flops_per_s", figures.matmul_flops_per_s}, {"ratio", figures.ratio}, {"formula", figures.formula}});
    return ok();
  };
}

}  // namespace troupe::tool
