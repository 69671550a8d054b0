#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/bench/kernels.h"
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

}  // namespace

int all_cores() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

Status bench_roofline(const BenchArguments& a) {
  print(bench::matmul_rows(a.threads, a.shapes), a.json);
  return ok();
}

Status bench_kernels(const BenchArguments& a) {
  print(bench::kernel_rows(a.threads), a.json);
  return ok();
}

Status bench_messages(const BenchArguments& a) {
  print(bench::bench_messages(a.messages), a.json);
  return ok();
}

Status bench_comm(const BenchArguments& a) {
  TROUPE_ASSIGN_OR_RETURN(const auto rows, bench::bench_comm(a.comm));
  print(rows, a.json);
  return ok();
}

Status bench_inspect(const BenchArguments& a) {
  TROUPE_ASSIGN_OR_RETURN(const auto rows, bench::bench_inspect(a.inspect));
  print(rows, a.json);
  return ok();
}

Status bench_parallel(const BenchArguments& a) {
  TROUPE_ASSIGN_OR_RETURN(const auto rows, bench::bench_parallel(a.parallel));
  print(rows, a.json);
  return ok();
}

Status bench_train(const BenchArguments& a) {
  bench::TrainOptions options = a.train;
  options.job.threads = a.threads;
  TROUPE_ASSIGN_OR_RETURN(const auto figures, bench::bench_train(options));
  if (options.peer_python.empty() && !a.json) {
    std::printf("PyTorch was not measured: neither --peer-python nor TROUPE_PEER_PYTHON names a Python with torch\n");
  }
  print(figures.rows, a.json, {{"tokens_per_s", figures.tokens_per_s}, {"model_flops_per_s", figures.model_flops_per_s},
                               {"matmul_flops_per_s", figures.matmul_flops_per_s}, {"ratio", figures.ratio}, {"formula", figures.formula}});
  return ok();
}

}  // namespace troupe::tool
