// troupe: one binary that plans, trains, generates, prepares data and looks at checkpoints. With usage.h the one file that sees CLI11.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu.h"
#include "tools/troupe/actor_rows.h"
#include "tools/troupe/commands.h"
#include "tools/troupe/usage.h"

namespace troupe::tool {
namespace {

int exit_code(const StatusOr<int>& done) {
  if (done.ok()) return *done;
  const Status& status = done.status();
  std::fprintf(stderr, "troupe: %s\n", std::string(status.message()).c_str());
  return absl::IsInvalidArgument(status) || absl::IsNotFound(status) || absl::IsFailedPrecondition(status) ? 2 : 1;
}
int exit_code(const Status& status) { return status.ok() ? 0 : exit_code(StatusOr<int>(status)); }

// Words that are none of the command's own are settings of its config.
void take_overrides(CLI::App& command, std::vector<std::string>& overrides) {
  command.allow_extras();
  command.footer("Every setting of the file can be overridden: --training.steps=20");
  command.parse_complete_callback([&] { overrides = command.remaining(); });
}

// The commands that were declared, and what each does when it was chosen.
class Commands {
 public:
  explicit Commands(CLI::App& app) : app_(app) {}

  // `declare` adds the options that fill an A; `run` gets it.
  template <class A, class Declare>
  void add(CLI::App& parent, const char* name, const char* what, Status (*run)(const A&), const Declare& declare) {
    CLI::App* command = parent.add_subcommand(name, what);
    const auto arguments = std::make_shared<A>();
    declare(*command, *arguments);
    runs_.emplace_back(command, [=] { return exit_code(run(*arguments)); });
  }
  // A command of a config file and overrides of its keys.
  template <class R>
  void add(const char* name, const char* what, R (*run)(const ConfigArguments&), const std::function<void(CLI::App&, ConfigArguments&)>& declare) {
    CLI::App* command = app_.add_subcommand(name, what);
    const auto arguments = std::make_shared<ConfigArguments>();
    command->add_option("config", arguments->config, "a TOML file; see tools/configs")->required();
    take_overrides(*command, arguments->overrides);
    declare(*command, *arguments);
    runs_.emplace_back(command, [=] { return exit_code(run(*arguments)); });
  }
  // A command of options and a program with its own arguments: all from the first word that is no option. `behind`: "--" and what follows.
  template <class A, class Declare>
  void add(const char* name, const char* what, StatusOr<int> (*run)(const A&), const std::vector<std::string>& behind, const Declare& declare) {
    CLI::App* command = app_.add_subcommand(name, what);
    const auto arguments = std::make_shared<A>();
    declare(*command, *arguments);
    command->prefix_command();
    runs_.emplace_back(command, [=] {
      arguments->program = command->remaining();
      if (!arguments->program.empty() && arguments->program[0].starts_with('-'))
        return exit_code(absl::InvalidArgumentError(absl::StrCat(name, ": ", unknown_word(*command, arguments->program[0]), ". The program stands behind --")));
      // The first "--" only ends our options, unless the program had begun.
      const bool ours = arguments->program.empty() && !behind.empty();
      arguments->program.insert(arguments->program.end(), behind.begin() + ours, behind.end());
      return exit_code(run(*arguments));
    });
  }
  CLI::App& group(const char* name, const char* what) {
    CLI::App& app = *app_.add_subcommand(name, what);
    app.require_subcommand(1);
    return app;
  }
  int run_the_chosen() const {
    for (const auto& [command, run] : runs_) {
      if (command->parsed()) return run();
    }
    return exit_code(absl::InvalidArgumentError("no command"));
  }

 private:
  CLI::App& app_;
  std::vector<std::pair<CLI::App*, std::function<int()>>> runs_;
};

constexpr const char* kSignals =
    "\n\nSIGINT, SIGTERM, SIGHUP: the step is finished, a checkpoint saved, exit code 0; a second one, a second or more later, ends at once."
    "\nSIGUSR1, SIGUSR2: the same, and never at once. SIGQUIT prints what every actor does."
    "\nBefore the training has begun a signal ends the process, with 128 + its number, and nothing is changed.";

void declare_launch(CLI::App& app, LaunchArguments& a) {
  app.add_option("--nproc", a.nproc, "ranks on this machine, or on each host without a number of its own")->capture_default_str()->check(whole(1, 4096));
  app.add_option("--hosts", a.hosts, "a:4,b:4: hosts with how many ranks each")->check(some("HOST or HOST:RANKS, several separated by commas, such as a:4,b:4"));
  app.add_option("--hostfile", a.host_file, "a file with a host a line: a slots=4 max_slots=8")->check(some("a file with a host a line, such as: a slots=4"));
  app.add_option("--ssh", a.ssh, "how a command is started on another host")->capture_default_str()->check(some("a command with its options, such as ssh -p 2222"));
  app.add_option("--address", a.address, "of this machine, as the hosts reach it; left out: found out")->check(some("a name or an address of this machine"));
  app.add_option("--env", a.env, "NAME=VALUE for all ranks, whatever the launcher sets itself; may be repeated")->take_all()->allow_extra_args(false);
  app.add_option("--log-dir", a.log_dir, "also keep what rank N writes in rank-N.log there; logs of an earlier launch become rank-N.log.1, .2, ...")->check(some("a folder"));
  app.add_option("--timeout", a.timeout_s, "stop the job after so many seconds, exit code 124; 0 never")->capture_default_str()->check(number(0, 1'000'000'000));
  app.add_flag("--agent", a.agent)->group("");  // what the launcher starts on another host
  app.footer(
      "Then -- PROGRAM ARGUMENTS, such as: troupe launch --nproc 2 -- troupe train tools/configs/quickstart.toml\n\n"
      "Signals: INT, TERM, QUIT, HUP, USR1 and USR2 are passed on to every rank. The first INT or TERM sets no deadline: ranks may save and end.\n"
      "A second one is passed on, too, and who has not ended a second later is killed. After a failure the others get TERM, and 5 s later KILL.\n"
      "Input: ranks read nothing (/dev/null), and the launcher leaves its standard input alone.\n"
      "Exit code: of the rank that failed first, 128 + N if it died of signal N; 124 after --timeout; 130 or 143 if INT or TERM came before all\n"
      "hosts had answered.");
}

void declare_manifest(CLI::App& app, ManifestArguments& a) {
  app.add_option("config", a.config, "a TOML file, as the ranks will see it")->required();
  take_overrides(app, a.overrides);
  app.add_option("--binary", a.binary, "where the nodes find this program")->capture_default_str();
  app.add_option("--ranks", a.ranks, "of the job; left out: one for each replica")->check(kPositive);
  app.add_option("--cpus-per-rank", a.cpus_per_rank, "cores of a rank")->capture_default_str()->check(kPositive);
}

void declare_manifest_slurm(CLI::App& app, ManifestArguments& a) {
  declare_manifest(app, a);
  app.add_option("--ranks-per-node", a.ranks_per_node, "at most")->capture_default_str()->check(kPositive);
  app.add_option("--time", a.time, "limit, such as 1-00:00:00");
  app.add_option("--partition", a.partition, "of the cluster");
}

void declare_manifest_kubernetes(CLI::App& app, ManifestArguments& a) {
  declare_manifest(app, a);
  app.add_option("--image", a.image, "a container image with the program")->required();
  app.add_option("--claim", a.claim, "the volume that all ranks share: corpus and output")->capture_default_str();
  app.add_option("--mount", a.mount, "where it is in a container")->capture_default_str();
}

void declare_generate(CLI::App& app, GenerateArguments& a) {
  app.add_option("--checkpoint", a.checkpoint, "OUT/checkpoints/step-N, or OUT for the newest one")->required();
  app.add_option("--prompt", a.prompt, "how the text begins")->capture_default_str();
  app.add_option("--tokens", a.sampling.tokens, "how many at most")->capture_default_str()->check(kNotNegative);
  app.add_option("--temperature", a.sampling.temperature, "0 takes the most likely token")->capture_default_str()->check(number(0, 1'000'000));
  app.add_option("--top-k", a.sampling.top_k, "of so many most likely tokens; 0 of all")->capture_default_str()->check(kNotNegative);
  app.add_option("--seed", a.sampling.seed, "of the draws")->capture_default_str();
  app.add_option("--window", a.window, "tokens that are looked back at")->capture_default_str()->check(kPositive);
}

void declare_jobs(CLI::App& app, JobsArguments& a) { app.add_flag("--json", a.json, "as JSON"); }

void declare_contact(CLI::App& app, ContactArguments& a) {
  app.add_option("--connect", a.connect, "HOST:PORT that the job listens at (job.inspect_listen), instead of a process here");
  app.add_option("--token-file", a.token_file, "a file with the job's token, instead of the one in the runtime folder")->check(some("a file"));
}

void declare_inspect(CLI::App& app, InspectArguments& a) {
  app.add_option("what", a.words, "[JOB] job | actors | mailbox NAME | peek NAME | edges | streams | waits | collectives | compute | dead | config")->required();
  app.add_flag("--json", a.json, "all there is, as JSON");
  app.add_option("--top", a.top, "those first with the most messages that wait (depth), the oldest one (age), the most time in handlers (busy), or the fastest growing mailbox (growth: looks for a second)")
      ->check(one_of("depth, age, busy or growth", kTops));
  app.add_option("--state", a.state, "actors in this state only, such as waiting, waiting-for-credit or running,ready")->check(some("a state, or several separated by commas, such as waiting,running"));
  app.add_option("--actor", a.actor, "of this actor only: NAME, RANK/NAME, how it begins, or a pattern such as 'stage-*'")->check(some("the name of an actor, or a pattern such as 'stage-*'"));
  app.add_option("--rank", a.rank, "of this rank only")->check(kNotNegative);
  app.add_option("--patience", a.patience_s, "seconds that ranks may take to answer")->capture_default_str()->check(allowed("a number from 0.01 to 10", [](const std::string& text) {
        double value = 0;
        return absl::SimpleAtod(text, &value) && value >= 0.01 && value <= 10;
      }));
  declare_contact(app, a.contact);
  app.footer("JOB is how an id of troupe jobs begins; left out: the only job that runs.");
}

void declare_dashboard(CLI::App& app, DashboardArguments& a) {
  app.add_option("job", a.job, "how the job's id begins (troupe jobs); left out: the only job that runs");
  app.add_option("--listen", a.listen, "ADDRESS:PORT of the page; port 0 is any that is free; other addresses than this machine's own need --token-file")->capture_default_str();
  app.add_option("--token-file", a.token_file, "a file, yours alone, with what a page must show: it is opened as /#token=...")->check(some("a file"));
  app.add_option("--record", a.record, "a new file that also gets what the page is sent, a JSON line a second")->check(some("a file"));
  app.add_option("--replay", a.replay, "show such a file instead of a running job")->check(some("a file"));
  app.add_option("--speed", a.speed, "of the replay")->capture_default_str()->check(allowed("a number above 0", [](const std::string& text) {
        double value = 0;
        return absl::SimpleAtod(text, &value) && value >= 0.001 && value <= 1e6;
      }));
  app.footer("The page goes on when the job ends and one with the same output folder comes back. SIGINT or SIGTERM ends it; the job does not notice.");
}

void declare_top(CLI::App& app, TopArguments& a) {
  app.add_option("job", a.job, "how an id of troupe jobs begins; left out: the only job that runs");
  app.footer("Keys: Tab the next view, s how it is sorted, / filter, Enter look into an actor, p pause the display, ? help, q quit.");
}

std::function<void(CLI::App&, ControlArguments&)> declare_control(const char* what) {
  return [what](CLI::App& app, ControlArguments& a) {
    a.what = what;
    app.add_option("actor", a.words, "[JOB] RANK/NAME, or the name alone where one rank has it")->required();
    app.add_flag("--json", a.json, "the answer, as JSON");
    declare_contact(app, a.contact);
    app.footer("JOB is how an id of troupe jobs begins; left out: the only job that runs. Only who may read the job's token can do this.");
  };
}

void declare_trace(CLI::App& app, TraceArguments& a) {
  app.add_option("job", a.job, "how an id of troupe jobs begins; left out: the only job that runs");
  app.add_option("--steps", a.steps, "whole steps that are recorded")->capture_default_str()->check(whole(1, 10'000));
  app.add_option("--seconds", a.seconds, "at most; what makes no steps is recorded for so long")->capture_default_str()->check(number(1, 3600));
  app.add_option("--last", a.before_s, "begin with what is still known of so many seconds before: for a job that is stuck")->capture_default_str()->check(number(0, 3600));
  app.add_option("--out,-o", a.out, "the file")->capture_default_str()->check(some("a file's name, such as trace.json"));
  app.footer("The file opens in ui.perfetto.dev and chrome://tracing. Nothing is slowed down to be recorded: what is overwritten before it is read is counted, and said.");
}

void declare_data_prepare(CLI::App& app, DataPrepareArguments& a) {
  app.add_option("inputs", a.inputs, "files, or folders that are read with all below them")->required();
  app.add_option("--output,-o", a.options.output, "prefix of the corpus: PREFIX.bin, PREFIX.idx, or PREFIX_train.*, PREFIX_validation.*")
      ->required();
  app.add_option("--tokenizer", a.tokenizer, "byte")->capture_default_str();
  app.add_option("--validation", a.options.validation_fraction, "share of documents that is held out, in [0, 1)")->capture_default_str();
  app.add_option("--seed", a.options.split_seed, "of the choice of held-out documents")->capture_default_str();
  app.add_option("--split-on", a.options.split_on, "a line that separates documents within a file, such as %");
  app.add_flag("--force", a.options.force, "replace a corpus that is there");
}

void declare_bench(CLI::App& app, BenchArguments& a) {
  app.add_flag("--json", a.json, "rows as JSON");
  app.add_option("--threads", a.threads, "compute threads")->capture_default_str()->check(kPositive);
}

void declare_bench_roofline(CLI::App& app, BenchArguments& a) {
  declare_bench(app, a);
  app.add_option("--rounds", a.shapes.rounds, "interleaved rounds")->capture_default_str()->check(kPositive);
}

void declare_bench_messages(CLI::App& app, BenchArguments& a) {
  app.add_flag("--json", a.json, "rows as JSON");
  app.add_option("--pairs", a.messages.pairs, "interleaved pairs")->capture_default_str()->check(whole(7, 1000));
  app.add_option("--messages", a.messages.messages, "of one run")->capture_default_str()->check(kPositive);
}

void declare_bench_comm(CLI::App& app, BenchArguments& a) {
  app.add_flag("--json", a.json, "rows as JSON");
  app.add_flag("--quick", a.comm.quick, "fewer messages a repetition");
  app.add_option("--only", a.comm.only, "measure what contains this in its name, such as all_gather or latency");
  app.add_option("--pairs", a.comm.pairs, "interleaved pairs")->capture_default_str()->check(whole(7, 1000));
}

void declare_bench_parallel(CLI::App& app, BenchArguments& a) {
  auto& job = a.parallel.job;
  if (const char* python = std::getenv("TROUPE_PEER_PYTHON")) a.parallel.peer_python = python;
  app.add_flag("--json", a.json, "rows as JSON");
  app.add_option("--rows", a.parallel.rows, "which groups, separated by commas")->capture_default_str()->delimiter(',')->check(CLI::IsMember(bench::kParallelRows));
  app.add_option("--model", job.model, "a preset")->capture_default_str();
  app.add_option("--set", job.overrides, "a setting of the job, such as model.layers=2; may be given again");
  app.add_option("--batch", job.batch, "sequences of a micro-batch")->capture_default_str()->check(kPositive);
  app.add_option("--seq", job.seq_len, "tokens a sequence")->capture_default_str()->check(kPositive);
  app.add_option("--micro-batches", job.micro_batches, "of a step, over both processes")->capture_default_str()->check(whole(2, 4096));
  app.add_option("--dtype", job.dtype, "bf16 or fp32")->capture_default_str()->check(CLI::IsMember({"bf16", "fp32"}));
  app.add_option("--pairs", a.parallel.pairs, "interleaved pairs")->capture_default_str()->check(whole(7, 1000));
  app.add_option("--processes", a.parallel.processes, "of the row join")->capture_default_str()->check(whole(2, 512));
  app.add_option("--peer-python", a.parallel.peer_python, "a Python with torch, for the row peers (TROUPE_PEER_PYTHON)");
}

void declare_bench_inspect(CLI::App& app, BenchArguments& a) {
  auto& job = a.inspect.job;
  app.add_flag("--json", a.json, "rows as JSON");
  app.add_option("--rows", a.inspect.rows, "which groups, separated by commas")->capture_default_str()->delimiter(',')->check(CLI::IsMember(bench::kInspectRows));
  app.add_option("--model", job.model, "a preset")->capture_default_str();
  app.add_option("--set", job.overrides, "a setting of the job, such as model.layers=2; may be given again");
  app.add_option("--batch", job.batch, "sequences of a micro-batch")->capture_default_str()->check(kPositive);
  app.add_option("--seq-len", job.seq_len, "tokens of a sequence")->capture_default_str()->check(kPositive);
  app.add_option("--pairs", a.inspect.pairs, "interleaved pairs")->capture_default_str()->check(whole(7, 1000));
  app.add_option("--actors", a.inspect.actors, "of the stuck job")->capture_default_str()->check(kPositive);
  app.add_option("--without-probes", a.inspect.without_probes, "this program without probes; left out: that of tools/dev/build noprobes");
  app.add_option("--deadlock", a.inspect.deadlock, "the example; left out: examples/deadlock beside this program");
}

void declare_bench_part(CLI::App& app, bench::PartArguments& a) {
  app.add_option("what", a.what)->required();
  app.add_option("socket", a.socket)->required();
  app.add_option("rank", a.rank)->required();
  app.add_option("options", a.options)->required();
}

void declare_bench_train(CLI::App& app, BenchArguments& a) {
  declare_bench(app, a);
  auto& job = a.train.job;
  if (const char* python = std::getenv("TROUPE_PEER_PYTHON")) a.train.peer_python = python;
  app.add_option("--model", job.model, "a preset")->capture_default_str();
  app.add_option("--batch", job.batch, "sequences a step")->capture_default_str()->check(kPositive);
  app.add_option("--seq", job.seq_len, "tokens a sequence")->capture_default_str()->check(kPositive);
  app.add_option("--dtype", job.dtype, "bf16 or fp32")->capture_default_str()->check(CLI::IsMember({"bf16", "fp32"}));
  app.add_option("--stages", job.stages, "pipeline stages in this process")->capture_default_str()->check(kPositive);
  app.add_option("--pairs", a.train.pairs, "interleaved pairs")->capture_default_str()->check(whole(7, 1000));
  app.add_option("--compare-stages", a.train.compare_stages, "also measure so many stages over --stages");
  app.add_option("--compare-saves", a.train.compare_saves, "also measure a save every so many steps over none");
  app.add_option("--peer-python", a.train.peer_python, "a Python with torch: PyTorch in turns with us (TROUPE_PEER_PYTHON)");
  app.add_option("--peer-arguments", a.train.peer_arguments, "how the peer does it, such as --dtype fp32 --mode eager; left out: the fastest way, found by a trial")
      ->take_all();
}

auto one_path(const char* name, const char* what) {
  return [=](CLI::App& app, std::string& path) { app.add_option(name, path, what)->required(); };
}

void declare(Commands& commands, CLI::App& app, const std::vector<std::string>& behind) {
  commands.add("train", "train a model as a config says", train, [](CLI::App& app_of_train, ConfigArguments& a) {
    app_of_train.add_flag("--dashboard{8265}", a.dashboard, "a page that shows this job, on this machine; --dashboard=PORT elsewhere than at 8265, 0 at any free port")->check(whole(0, 65535));
    app_of_train.footer(app_of_train.get_footer() + kSignals);
  });
  CLI::App& manifest = commands.group("manifest", "print what starts a config's job on a cluster");
  commands.add(manifest, "slurm", "a batch script for sbatch", manifest_slurm, declare_manifest_slurm);
  commands.add(manifest, "kubernetes", "an indexed Job with its Service and Secret, for kubectl apply", manifest_kubernetes, declare_manifest_kubernetes);
  commands.add("plan", "print placement, edges, credits, memory and cost of a config", plan, [](CLI::App& app_of_plan, ConfigArguments& a) {
    app_of_plan.add_option("--processes", a.processes, "of the job; left out: one for each replica")->check(kPositive);
  });
  commands.add("launch", "start a program as the ranks of a job, here and on other hosts", launch, behind, declare_launch);
  commands.add(app, "generate", "write text with a checkpoint's weights", generate, declare_generate);
  commands.add(app, "report", "say what a run has come to", report, one_path("output", "a run's output folder"));

  commands.add(app, "jobs", "list the running jobs of this user", jobs, declare_jobs);
  commands.add(app, "inspect", "show what a running job does and waits for", inspect, declare_inspect);
  commands.add(app, "top", "show a running job on a whole screen, again every second", top, declare_top);
  commands.add(app, "pause", "let an actor of a running job take no more messages; what it has begun goes on", control, declare_control("pause"));
  commands.add(app, "resume", "let a paused actor go on", control, declare_control("resume"));
  commands.add(app, "step", "let a paused actor take one message", control, declare_control("step"));

  commands.add(app, "dashboard", "a page in the browser that shows a running job", dashboard, declare_dashboard);
  commands.add(app, "trace", "record what a running job does, as a file for ui.perfetto.dev", trace, declare_trace);

  CLI::App& data = commands.group("data", "prepare and inspect token corpora");
  commands.add(data, "prepare", "turn files or folders of text into a corpus", data_prepare, declare_data_prepare);
  commands.add(data, "inspect", "say what a corpus holds", data_inspect,
               one_path("corpus", "a prefix, a .bin file, a folder or a pattern of llm.c shards"));

  CLI::App& checkpoint = commands.group("checkpoint", "inspect and verify checkpoints");
  const auto step_folder = one_path("checkpoint", "a folder OUT/checkpoints/step-N");
  commands.add(checkpoint, "inspect", "say what a checkpoint holds", checkpoint_inspect, step_folder);
  commands.add(checkpoint, "verify", "read every byte and compare hashes", checkpoint_verify, step_folder);

  CLI::App& bench = commands.group("bench", "measure, as ratios within one run");
  commands.add(bench, "roofline", "matrix products of a model's shapes", bench_roofline, declare_bench_roofline);
  commands.add(bench, "kernels", "every kernel over its bound", bench_kernels, declare_bench);
  commands.add(bench, "messages", "messages over bare CAF", bench_messages, declare_bench_messages);
  commands.add(bench, "comm", "the link between two processes over ucx_perftest and Open MPI", bench_comm, declare_bench_comm);
  commands.add(bench, "parallel", "data parallel processes over one, over PyTorch, with a slow link and a slow replica", bench_parallel, declare_bench_parallel);
  commands.add(bench, "inspect", "what probes and whoever looks cost, and how long a look takes", bench_inspect, declare_bench_inspect);
  commands.add(bench, "part", "", bench::run_part, declare_bench_part);
  bench.get_subcommand("part")->group("");  // for measurements; not shown
  commands.add(bench, "train", "training over the matrix products' rate, and over PyTorch", bench_train, declare_bench_train);
}

}  // namespace
}  // namespace troupe::tool

int main(int argc, char** argv) {
  CLI::App app{"Troupe: an actor-model runtime and trainer for large language models"};
  app.set_version_flag("--version", "troupe " TROUPE_VERSION);
  app.require_subcommand(1);
  app.footer("Start with tools/quickstart. Settings: every key of a config can be overridden, as --section.key=value.");
  troupe::tool::Commands commands(app);
  // CLI11 would look for commands and options behind "--", too.
  char** const end = argc > 1 && std::strcmp(argv[1], "launch") == 0 ? std::find_if(argv, argv + argc, [](const char* word) { return std::strcmp(word, "--") == 0; }) : argv + argc;
  const std::vector<std::string> behind(end, argv + argc);
  troupe::tool::declare(commands, app, behind);
  try {
    app.parse(static_cast<int>(end - argv), argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // help, version
    return troupe::tool::exit_code(absl::InvalidArgumentError(troupe::tool::text_of(app, error)));
  }
  if (const auto isa = troupe::kernels::cpu::isa_from_environment(); !isa.ok()) return troupe::tool::exit_code(isa.status());
  return commands.run_the_chosen();
}
