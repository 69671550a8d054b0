// Two of our processes against two of PyTorch's, on the same cores in turns.
#include <optional>

#include "absl/strings/str_cat.h"
#include "tests/bench/pairs.h"
#include "tests/bench/parallel_crew.h"
#include "tests/bench/parallel_rows.h"
#include "tests/bench/peer_process.h"

namespace troupe::bench {
namespace {

using Words = std::vector<std::string>;

Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

struct Way {
  const char* name;
  Words words;
};
struct Peer {
  std::string row;
  int zero;  // ours that does the same
  const char* what;
  std::vector<Way> ways;
};

const std::vector<Peer>& peers() {
  static const std::vector<Peer> all{
      {"parallel.over_ddp",
       0,
       "DDP",
       {{"fp32", {"--parallel", "ddp", "--dtype", "fp32"}}, {"bf16 autocast", {"--parallel", "ddp", "--dtype", "bf16"}}}},
      {"parallel.over_fsdp2",
       3,
       "FSDP2, parameters gathered per block for each forward and backward",
       {{"fp32", {"--parallel", "fsdp2", "--dtype", "fp32"}},
        {"bf16 autocast", {"--parallel", "fsdp2", "--dtype", "bf16"}},
        {"bf16 policy", {"--parallel", "fsdp2", "--dtype", "bf16", "--precision", "policy"}}}},
  };
  return all;
}

// By the median of three steps of two layers at the real batch; a way whose first step takes twice the best is not tried further, one that
// cannot start is left out.
StatusOr<Way> fastest(const ParallelOptions& options, const Words& work, const Peer& peer) {
  std::optional<Way> found;
  double best = 0;
  Status why = absl::NotFoundError("no peer");
  for (const Way& way : peer.ways) {
    if (options.job.dtype == "fp32" && std::string(way.name) != "fp32") continue;
    const auto speed = trial_of_peer(options.peer_python, options.peer_script,
                                     joined(joined(work, way.words), {"--layers", "2", "--warm-up", "1"}), best);
    if (!speed.ok()) {
      why = speed.status();
    } else if (*speed > best) {
      best = *speed;
      found = way;
    }
  }
  if (!found) return why;
  return *found;
}

StatusOr<Words> same_work(const PacedOptions& job) {
  TROUPE_ASSIGN_OR_RETURN(const auto planned, plan_of(job));
  const auto& m = planned.plan.model;
  if (m.family != models::Family::kGpt2) return absl::InvalidArgumentError(absl::StrCat("the peer trains GPT-2, not ", job.model));
  Words words;
  const std::pair<const char*, std::int64_t> options[] = {{"--ranks", job.replicas},     {"--micro-batches", planned.plan.micro_batches},
                                                          {"--batch", job.batch},        {"--seq", job.seq_len},
                                                          {"--threads", job.threads},    {"--layers", m.layers},
                                                          {"--heads", m.heads},          {"--channels", m.hidden},
                                                          {"--vocabulary", m.vocabulary}};
  for (const auto& [option, value] : options) words = joined(words, {option, absl::StrCat(value)});
  return words;
}

Status measure_peer(const ParallelOptions& options, const Peer& peer, Rows& rows) {
  // The nearest of our stages that the trainer has.
  PacedOptions job = two_ranks(options, peer.zero);
  while (job.zero > 0 && !plan_of(job).ok()) --job.zero;
  const auto work = same_work(job);
  if (!work.ok()) return skipped(rows, peer.row, work.status()) ? ok() : work.status();
  const auto way = fastest(options, *work, peer);
  if (!way.ok()) {
    skip(rows, peer.row, absl::StrCat("skipped: ", std::string(way.status().message())));
    return ok();
  }
  const auto ours = ParallelCrew::start(job);
  if (!ours.ok()) return skipped(rows, peer.row, ours.status()) ? ok() : ours.status();
  TROUPE_ASSIGN_OR_RETURN(auto theirs, PeerProcess::start(options.peer_python, options.peer_script, joined(*work, way->words)));
  TROUPE_ASSIGN_OR_RETURN(const auto pairs, in_turns(
                                                options.pairs, [&] { return (*ours)->tokens_per_s(); }, [&] { return theirs.run_step(); }));
  add_ratio(
      rows, peer.row, 1.2, pairs,
      absl::StrCat("tokens/s of ours, ", job.dtype, ", ZeRO-", job.zero, ", over PyTorch ", peer.what, ", gloo, its fastest way (",
                   way->name, ", by a trial of ", peer.ways.size(),
                   "): the same two processes of 1 thread and micro-batches; median of pairs of steps in turns; peer's tokens/s; it said: ",
                   theirs.description()));
  return ok();
}

}  // namespace

Status measure_peers(const ParallelOptions& options, Rows& rows) {
  for (const Peer& peer : peers()) {
    if (options.peer_python.empty()) {
      skip(rows, peer.row, "skipped: neither --peer-python nor TROUPE_PEER_PYTHON names a Python with torch");
    } else {
      TROUPE_RETURN_IF_ERROR(measure_peer(options, peer, rows));
    }
  }
  return ok();
}

}  // namespace troupe::bench
