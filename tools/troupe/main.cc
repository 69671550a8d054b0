// troupe: one binary that plans, trains, generates, prepares data and looks at checkpoints.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>

#include "kernels/cpu/cpu.h"
#include "tools/troupe/commands.h"

namespace {

int exit_code(const troupe::Status& status) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "troupe: %s\n", std::string(status.message()).c_str());
  return absl::IsInvalidArgument(status) || absl::IsNotFound(status) || absl::IsFailedPrecondition(status) ? 2 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Troupe: an actor-model runtime and trainer for large language models"};
  app.set_version_flag("--version", "troupe " TROUPE_VERSION);
  app.require_subcommand(1);
  app.footer("Start with tools/quickstart. Settings: every key of a config can be overridden, as --section.key=value.");

  std::map<CLI::App*, troupe::tool::Run> runs;
  const auto add = [&runs](CLI::App& parent, const char* name, const char* what, auto declare) {
    CLI::App* command = parent.add_subcommand(name, what);
    runs[command] = declare(*command);
  };
  namespace tool = troupe::tool;
  add(app, "train", "train a model as a config says", tool::add_train);
  add(app, "plan", "print placement, edges, credits, memory and cost of a config", tool::add_plan);
  add(app, "generate", "write text with a checkpoint's weights", tool::add_generate);
  add(app, "report", "say what a run has come to", tool::add_report);
  auto& data = *app.add_subcommand("data", "prepare and inspect token corpora");
  data.require_subcommand(1);
  add(data, "prepare", "turn files or folders of text into a corpus", tool::add_data_prepare);
  add(data, "inspect", "say what a corpus holds", tool::add_data_inspect);
  auto& checkpoint = *app.add_subcommand("checkpoint", "inspect and verify checkpoints");
  checkpoint.require_subcommand(1);
  add(checkpoint, "inspect", "say what a checkpoint holds", tool::add_checkpoint_inspect);
  add(checkpoint, "verify", "read every byte and compare hashes", tool::add_checkpoint_verify);
  auto& bench = *app.add_subcommand("bench", "measure, as ratios within one run");
  bench.require_subcommand(1);
  add(bench, "roofline", "matrix products of a model's shapes", tool::add_bench_roofline);
  add(bench, "kernels", "every kernel over its bound", tool::add_bench_kernels);
  add(bench, "messages", "messages over bare CAF", tool::add_bench_messages);
  add(bench, "train", "training over the matrix products' rate, and over PyTorch", tool::add_bench_train);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (const auto isa = troupe::kernels::cpu::isa_from_environment(); !isa.ok()) return exit_code(isa.status());
  for (const auto& [command, run] : runs) {
    if (command->parsed()) return exit_code(run());
  }
  return 2;
}
