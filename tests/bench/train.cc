#include "tests/bench/train.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "models/flops.h"
#include "tests/bench/matmul.h"
#include "tests/bench/pairs.h"
#include "tests/bench/peer_process.h"

namespace troupe::bench {
namespace {

// The rate of the fastest product of the model's own forward, input- and weight-gradient shapes in `dtype`: one interleaved round.
double matmul_flops_per_s(const plan::Plan& plan, const std::string& dtype) {
  const auto& m = plan.model;
  const auto rows = matmul_rows(plan.threads, {.rows = plan.geometry.batch, .tokens = plan.geometry.seq_len, .channels = m.hidden,
                                               .hidden = m.intermediate, .vocabulary = m.vocabulary,
                                               .padded_vocabulary = m.padded_vocabulary, .chunk_tokens = plan.chunk_tokens,
                                               .heads = static_cast<int>(m.heads), .rounds = 1});
  double best = 0;
  for (const auto& row : rows) {
    const bool product = row.name.find("forward") != std::string::npos || row.name.find("gradient ") != std::string::npos;
    const bool attention = row.name.find("attention") != std::string::npos;
    if (product && !attention && row.name.find(dtype) != std::string::npos) best = std::max(best, row.value);
  }
  return best * rows.front().value * 1e9;  // rows are shares of the first, the fastest of all
}

using Words = std::vector<std::string>;

Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// What the peer must be told to do the same work.
StatusOr<Words> same_work(const plan::Plan& plan, const std::string& model_name) {
  const auto& m = plan.model;
  if (m.family != models::Family::kGpt2) {
    return absl::InvalidArgumentError(absl::StrCat("--peer-python: the peer trains GPT-2, not ", model_name, "; leave it out, or take a gpt2 preset"));
  }
  const auto word = [](const char* name, std::int64_t value) { return Words{name, absl::StrCat(value)}; };
  Words words = word("--batch", plan.geometry.batch);
  for (const Words& more : {word("--seq", plan.geometry.seq_len), word("--threads", plan.threads), word("--layers", m.layers),
                            word("--heads", m.heads), word("--channels", m.hidden), word("--vocabulary", m.vocabulary)}) {
    words = joined(words, more);
  }
  return words;
}

// The fastest way of PyTorch on this machine, by the median of three steps of two layers at the real batch, where products outweigh the
// optimizer as they do in the whole model; a way whose first step takes twice the best is not tried further, one that cannot start is left
// out. For bf16 any type may be the fastest; for fp32 only fp32 is the same work.
StatusOr<Words> fastest_peer(const TrainOptions& options, const Words& work) {
  Words fastest;
  double best = 0;
  Status why = absl::NotFoundError("no peer");
  for (const char* dtype : {"fp32", "bf16"}) {
    if (options.job.dtype == "fp32" && std::string(dtype) == "bf16") continue;
    for (const char* mode : {"eager", "compile"}) {
      const Words way{"--dtype", dtype, "--mode", mode};
      const auto speed = trial_of_peer(options.peer_python, options.peer_script,
                                       joined(joined(work, way), {"--layers", "2", "--warm-up", "1"}), best);
      if (!speed.ok()) {
        why = speed.status();
      } else if (*speed > best) {
        best = *speed;
        fastest = way;
      }
    }
  }
  if (fastest.empty()) return why;
  return fastest;
}

double share(std::int64_t part_ns, std::int64_t whole_ns) { return whole_ns > 0 ? static_cast<double>(part_ns) / static_cast<double>(whole_ns) : 0; }

}  // namespace

StatusOr<TrainFigures> bench_train(const TrainOptions& options) {
  TrainFigures figures;
  figures.formula = models::training_flops_formula();
  auto& rows = figures.rows;
  TROUPE_ASSIGN_OR_RETURN(const auto first, PacedJob::create(options.job));
  PacedJob& job = *first;
  const auto tokens_per_s = [](PacedJob& of) {
    const auto report = of.step();
    return of.tokens_per_step() / seconds(report.step_ns);
  };
  job.step();
  job.step();
  const auto takes = job.summary().pool_takes;
  const double memory = static_cast<double>(peak_resident_bytes()) / static_cast<double>(job.plan().total_bytes);

  std::vector<double> speeds, rates, ratios;
  std::int64_t step_ns = 0, data_ns = 0;
  const double flops_per_token = job.plan().flops_per_step / job.tokens_per_step();
  for (int i = 0; i < options.pairs; ++i) {
    const double rate = matmul_flops_per_s(job.plan(), options.job.dtype);
    const auto report = job.step();
    step_ns += report.step_ns;
    data_ns += report.data_wait_ns;
    speeds.push_back(job.tokens_per_step() / seconds(report.step_ns));
    rates.push_back(rate);
    ratios.push_back(speeds.back() * flops_per_token / rate);
  }
  figures.tokens_per_s = median(speeds);
  figures.model_flops_per_s = figures.tokens_per_s * flops_per_token;
  figures.matmul_flops_per_s = median(rates);
  figures.ratio = median(ratios);
  rows.push_back({"train.tokens_per_s", figures.tokens_per_s, "tokens/s", 0, 0, "median over steps of batch * seq_len / step time"});
  rows.push_back({"train.ratio", figures.ratio, "ratio", 0.70, figures.matmul_flops_per_s,
                  absl::StrCat("model FLOP/s (", figures.formula, ") over the best product of the model's own shapes in ", options.job.dtype,
                               ", measured in turns with the steps; median of pairs")});
  rows.push_back({"train.ratio.spread", spread_against_itself(speeds), "ratio", 0, 0,
                  "a step against the one before: half the distance between the quartiles, over the median"});
  rows.push_back({"train.memory", memory, "ratio", 1.10, 0, "peak resident bytes after two steps over the plan's total; between 0.90 and 1.10"});
  rows.push_back({"train.allocations", static_cast<double>(job.summary().pool_takes - takes), "buffers", 0, 0, "device buffers taken after step 2"});
  rows.push_back({"train.data_wait", share(data_ns, step_ns), "share", 0.005, 0, "time a stage had room and no batch was read, over step time; at most"});

  if (options.compare_stages > 0) {
    PacedOptions staged = options.job;
    staged.stages = options.compare_stages;
    TROUPE_ASSIGN_OR_RETURN(const auto second, PacedJob::create(staged));
    PacedJob& other = *second;
    other.step();
    other.step();
    TROUPE_ASSIGN_OR_RETURN(const auto pairs, in_turns(options.pairs, [&] { return tokens_per_s(other); }, [&] { return tokens_per_s(job); }));
    add_ratio(rows, absl::StrCat("train.stages-", options.compare_stages), 0.97, pairs,
              absl::StrCat("tokens/s of ", options.compare_stages, " stages over ", options.job.stages, " in one process, same threads"));
  }
  if (options.compare_saves > 0) {
    PacedOptions saving = options.job;
    saving.save_every = options.compare_saves;
    TROUPE_ASSIGN_OR_RETURN(const auto second, PacedJob::create(saving));
    PacedJob& other = *second;
    other.step();
    std::int64_t waited_ns = 0, whole_ns = 0;
    // A pair is a whole interval between two saves, so that each has its share of one.
    const auto interval = [&](PacedJob& of, bool count) {
      std::int64_t ns = 0;
      for (int i = 0; i < options.compare_saves; ++i) {
        const auto report = of.step();
        ns += report.step_ns;
        if (count) waited_ns += report.checkpoint_wait_ns;
      }
      if (count) whole_ns += ns;
      return of.tokens_per_step() * options.compare_saves / seconds(ns);
    };
    TROUPE_ASSIGN_OR_RETURN(const auto pairs,
                            in_turns(options.pairs, [&] { return interval(other, true); }, [&] { return interval(job, false); }));
    add_ratio(rows, "train.saves", 0.97, pairs, absl::StrCat("tokens/s with a save every ", options.compare_saves, " steps over none"));
    rows.push_back({"train.checkpoint_wait", share(waited_ns, whole_ns), "share", 0.01, 0,
                    "time the compute stream stood waiting for a snapshot, over step time; at most"});
  }
  if (!options.peer_python.empty()) {
    TROUPE_ASSIGN_OR_RETURN(const Words work, same_work(job.plan(), options.job.model));
    Words way = options.peer_arguments;
    if (way.empty()) {
      TROUPE_ASSIGN_OR_RETURN(way, fastest_peer(options, work));
    }
    TROUPE_ASSIGN_OR_RETURN(auto peer, PeerProcess::start(options.peer_python, options.peer_script, joined(work, way)));
    TROUPE_ASSIGN_OR_RETURN(const auto pairs,
                            in_turns(options.pairs, [&] { return tokens_per_s(job); }, [&] { return peer.run_step(); }));
    add_ratio(rows, "train.over_pytorch", options.job.dtype == "fp32" ? 1.15 : 1.20, pairs,
              absl::StrCat("tokens/s over PyTorch's in turns; peer: ", peer.description()));
  }
  return figures;
}

}  // namespace troupe::bench
