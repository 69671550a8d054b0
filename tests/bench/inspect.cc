#include "tests/bench/inspect.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/check.h"
#include "runtime/trace/registry.h"
#include "tests/bench/child_program.h"
#include "tests/bench/forked.h"
#include "tests/bench/messages.h"
#include "tests/bench/pairs.h"
#include "tests/bench/parallel_crew.h"
#include "tests/bench/program_part.h"
#include "tests/bench/watchers.h"

namespace troupe::bench {
namespace {

using Rows = std::vector<BenchRow>;
namespace fs = std::filesystem;

constexpr int kMessagePairs = 5;  // as many times more than of the other rows: one takes a tenth of a second, and which core an actor runs on is chance

// The programs, found and there.
struct Programs {
  std::string with, without, deadlock;
};

StatusOr<std::string> program_at(const std::string& path, const std::string& how_to_build) {
  if (access(path.c_str(), X_OK) == 0) return path;
  return absl::NotFoundError(absl::StrCat(path, " is no program: ", how_to_build));
}

StatusOr<Programs> programs_of(const InspectOptions& options) {
  std::error_code error;
  const fs::path with = fs::canonical(options.program, error);
  if (error) return absl::NotFoundError(absl::StrCat(options.program, ": ", error.message()));
  const auto needs = [&](std::initializer_list<const char*> rows) {
    return std::ranges::any_of(rows, [&](const char* row) { return std::ranges::find(options.rows, row) != options.rows.end(); });
  };
  Programs programs{.with = with};
  if (needs({"messages", "train"})) {
    const std::string path = options.without_probes.empty() ? (with.parent_path().parent_path() / "noprobes" / "troupe").string() : options.without_probes;
    TROUPE_ASSIGN_OR_RETURN(programs.without, program_at(path, "build it by tools/dev/build noprobes, or name one with --without-probes"));
  }
  if (needs({"deadlock"})) {
    const std::string path = options.deadlock.empty() ? (with.parent_path() / "examples" / "deadlock").string() : options.deadlock;
    TROUPE_ASSIGN_OR_RETURN(programs.deadlock, program_at(path, "build it, or name it with --deadlock"));
  }
  return programs;
}

StatusOr<ForkedRanks> start_part(const std::string& program, const std::string& what, const std::string& options = "{}") {
  return ForkedRanks::fork(1, [&](int socket, int rank) { become_part(program, what, socket, rank, options); });
}

StatusOr<double> number_from(ForkedRanks& part, const std::string& order) {
  TROUPE_RETURN_IF_ERROR(part.send(0, order));
  TROUPE_ASSIGN_OR_RETURN(const std::string said, part.receive(0));
  double number = 0;
  if (!absl::SimpleAtod(said, &number)) return absl::UnavailableError(absl::StrCat("a part said: ", said));
  return number;
}

Status measure_messages(const InspectOptions& options, const Programs& programs, Rows& rows) {
  for (const std::string name : {"one", "many"}) {
    TROUPE_ASSIGN_OR_RETURN(auto with, start_part(programs.with, "messages"));
    TROUPE_ASSIGN_OR_RETURN(auto without, start_part(programs.without, "messages"));
    const Measure on = [&] { return number_from(with, name); }, off = [&] { return number_from(without, name); };
    TROUPE_RETURN_IF_ERROR(on().status());  // pages, allocator, the clock's calibration
    TROUPE_RETURN_IF_ERROR(off().status());
    TROUPE_ASSIGN_OR_RETURN(const auto pairs, in_turns(kMessagePairs * options.pairs, on, off));
    add_ratio(rows, absl::StrCat("inspect.messages.", name), 0.90, pairs,
              absl::StrCat("messages/s of ping-pong of two actors on two workers, ", name == "one" ? 1 : kManyBalls,
                           " in flight: this build over one without probes; median of runs in turns; peer: without, messages/s"));
  }
  return ok();
}

Status measure_train(const InspectOptions& options, const Programs& programs, Rows& rows) {
  PacedOptions looked_into = options.job;
  looked_into.inspect_as = absl::StrCat("bench-", getpid());
  TROUPE_ASSIGN_OR_RETURN(const auto with, ParallelCrew::start(looked_into, {}, programs.with));
  TROUPE_ASSIGN_OR_RETURN(const auto without, ParallelCrew::start(options.job, {}, programs.without));
  TROUPE_ASSIGN_OR_RETURN(const auto watchers, Watchers::start(programs.with, looked_into.inspect_as));
  TROUPE_ASSIGN_OR_RETURN(const auto pairs, in_turns(
                                                options.pairs, [&] { return with->tokens_per_s(); }, [&] { return without->tokens_per_s(); }));
  TROUPE_ASSIGN_OR_RETURN(const auto looks, watchers->looks());
  const auto& job = options.job;
  add_ratio(rows, "inspect.train", 0.99, pairs,
            absl::StrCat("tokens/s of ", job.replicas, " processes of ", job.threads, " thread(s), ", job.model, ", ", job.dtype, ", with probes, asked for all ranks' "
                         "reports once a second and shown by a dashboard that is open, over a build without probes; ", job.micro_batches,
                         " micro-batches a step over all, each of ", job.batch, " sequences of ", job.seq_len,
                         " tokens; median of steps in turns; peer: without, tokens/s"));
  rows.push_back({"inspect.train.looks", static_cast<double>(looks.asked), "count", 0, static_cast<double>(looks.events),
                  "reports of all ranks that were got meanwhile; peer: events that the dashboard sent"});
  return ok();
}

// One job: what is built into it is the same, recorded or not.
Status measure_trace(const InspectOptions& options, const Programs& programs, Rows& rows) {
  PacedOptions recorded = options.job;
  recorded.inspect_as = absl::StrCat("traced-", getpid());
  TROUPE_ASSIGN_OR_RETURN(const auto crew, ParallelCrew::start(recorded, {}, programs.with));
  const std::string file = (fs::temp_directory_path() / absl::StrCat(recorded.inspect_as, ".json")).string();
  const std::vector<std::string> words{programs.with, "trace", recorded.inspect_as, "--out", file};
  const Measure on = [&]() -> StatusOr<double> {
    auto recorder_words = words;
    recorder_words.insert(recorder_words.end(), {"--steps", "10000", "--seconds", "3600"});
    TROUPE_ASSIGN_OR_RETURN(const auto recorder, ChildProgram::start(recorder_words));
    TROUPE_RETURN_IF_ERROR(crew->tokens_per_s().status());  // it has begun to record meanwhile
    return crew->tokens_per_s();
  };
  const Measure off = [&]() -> StatusOr<double> {
    TROUPE_RETURN_IF_ERROR(crew->tokens_per_s().status());
    return crew->tokens_per_s();
  };
  TROUPE_ASSIGN_OR_RETURN(const auto pairs, in_turns(options.pairs, on, off));
  const auto& job = options.job;
  add_ratio(rows, "inspect.trace", 0.97, pairs,
            absl::StrCat("tokens/s of ", job.replicas, " processes of ", job.threads, " thread(s), ", job.model, ", ", job.dtype, ", while `troupe trace` records them on the same machine, over "
                         "not recording; median of steps in turns; peer: not recorded, tokens/s"));
  auto last_words = words;
  last_words.insert(last_words.end(), {"--seconds", "1"});
  TROUPE_ASSIGN_OR_RETURN(auto recorder, ChildProgram::start(last_words));
  TROUPE_RETURN_IF_ERROR(crew->tokens_per_s().status());
  if (const int code = recorder.wait(); code != 0) return absl::UnavailableError(absl::StrCat("troupe trace ended with ", code, ": ", recorder.err()));
  std::error_code error;
  const auto bytes = static_cast<double>(fs::file_size(file, error));
  fs::remove(file, error);
  rows.push_back({"inspect.trace.bytes", bytes, "bytes", 0, 0, absl::StrCat("the file of one second; the recorder said: ", recorder.out())});
  return ok();
}

Status measure_actors(const InspectOptions& options, const Programs& programs, Rows& rows) {
  const std::string id = absl::StrCat("stuck-", getpid());
  TROUPE_ASSIGN_OR_RETURN(auto job, start_part(programs.with, "stuck", nlohmann::json{{"actors", options.actors}, {"job", id}}.dump()));
  TROUPE_RETURN_IF_ERROR(job.receive(0).status());
  for (const std::string view : {"actors", "waits"}) {
    std::vector<double> took_s;
    std::int64_t bytes = 0;
    for (int i = 0; i < options.pairs; ++i) {
      TROUPE_ASSIGN_OR_RETURN(const auto ended, run_program({programs.with, "inspect", id, view}));
      took_s.push_back(ended.took_s);
      bytes = static_cast<std::int64_t>(ended.out.size());
    }
    rows.push_back({"inspect." + view, median(took_s), "s", view == "actors" ? 0.2 : 0, spread(took_s),
                    absl::StrCat("seconds from the start to the end of `troupe inspect ", view, "` on a job of ", options.actors, " actors of one process, all stuck and both its workers in handlers "
                                 "that do not return; ", bytes, " bytes of text; median of ", options.pairs, view == "actors" ? "; at most" : "", "; peer: spread, half the distance between the quartiles over the median")});
  }
  return ok();
}

Status measure_deadlock(const InspectOptions& options, const Programs& programs, Rows& rows) {
  TROUPE_ASSIGN_OR_RETURN(const auto job, ChildProgram::start({programs.with, "launch", "--nproc", "2", "--", programs.deadlock}));
  const auto due = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  const auto names_it = [](const ProgramEnd& ended) { return ended.out.find("a cycle of 3") != std::string::npos; };
  std::vector<double> took_s;
  while (static_cast<int>(took_s.size()) < options.pairs) {
    TROUPE_ASSIGN_OR_RETURN(const auto ended, run_program({programs.with, "inspect", "waits"}));
    if (ended.exit_code == 0 && names_it(ended)) took_s.push_back(ended.took_s);
    else if (std::chrono::steady_clock::now() > due) return absl::DeadlineExceededError(absl::StrCat("inspect waits names no circle: ", ended.out, ended.err));
  }
  rows.push_back({"inspect.deadlock", median(took_s), "s", 2, spread(took_s),
                  "seconds that `troupe inspect waits` takes to name the circle of three actors in two processes; at most; peer: spread"});
  return ok();
}

// What a thousand probes take of the heap, and the room of the largest.
Status measure_memory(const InspectOptions&, const Programs&, Rows& rows) {
  constexpr int kProbes = 1000;
  trace::ProbeRegistry registry([](std::uint32_t) { return std::string(); }, nullptr);
  const auto in_use = [] {
    const auto heap = mallinfo2();
    return static_cast<double>(heap.uordblks + heap.hblkhd);
  };
  const double before = in_use();
  for (int i = 0; i < kProbes; ++i) registry.add(std::make_shared<trace::Probe>(absl::StrCat("an-actor-with-a-name-", i), registry.ticks()));
  rows.push_back({"inspect.probe_bytes", (in_use() - before) / kProbes, "bytes", 16 * 1024, static_cast<double>(sizeof(trace::Probe)),
                  absl::StrCat("heap of a probe and its place in the registry, the mean of ", kProbes, "; at most; peer: sizeof(Probe)")});
  return ok();
}

}  // namespace

StatusOr<std::vector<BenchRow>> bench_inspect(const InspectOptions& options) {
  TROUPE_CHECK(options.pairs >= 7) << options.pairs << " pairs: a median needs at least 7";
  TROUPE_ASSIGN_OR_RETURN(const Programs programs, programs_of(options));
  using Measurement = Status (*)(const InspectOptions&, const Programs&, Rows&);
  constexpr Measurement kMeasurements[] = {measure_messages, measure_train, measure_trace, measure_actors, measure_deadlock, measure_memory};
  Rows rows;
  for (std::size_t i = 0; i < kInspectRows.size(); ++i) {
    if (std::ranges::find(options.rows, kInspectRows[i]) == options.rows.end()) continue;
    std::fprintf(stderr, "bench inspect: %s\n", kInspectRows[i].c_str());
    TROUPE_RETURN_IF_ERROR(kMeasurements[i](options, programs, rows));
  }
  return rows;
}

}  // namespace troupe::bench
