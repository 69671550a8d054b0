// Answers made of what the ranks have answered, as JSON. Texts of ranks are put together unread where that does, so that a job of many is not read twice.
// Threads: any; pure. Errors: kNotFound, kInvalidArgument: an actor that is not there, or a name that several ranks have.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "actors/inspect/runtime_folder.h"
#include "runtime/base/status.h"
#include "runtime/trace/report.h"

namespace troupe::actors {

struct RankReply {
  int rank = 0;
  Status status;  // not ok: why there is no answer
  std::string text{};
  double silent_s = 0;  // of one that said nothing at all; see silences.h
  std::int64_t after_ns = 0;  // from the question to the answer
};
using Replies = std::span<const RankReply>;

// [report]
std::vector<trace::RankReport> reports_of(Replies replies);

struct Asked {
  const JobCard& card;
  std::string list{};   // of rows
  std::string actor{};  // "<rank>/<name>" or "<name>"
  bool is_brief = false;
};

// A view of the answers to the verb in brackets, see rank_answers.cc.
StatusOr<std::string> job_view(const Asked& asked, Replies replies);      // [summary]
StatusOr<std::string> ranks_view(const Asked& asked, Replies replies);    // [report]
StatusOr<std::string> frame_view(const Asked& asked, Replies replies);    // [report]
// A frame with who waits for whom and who computes slower: found by who shows it, since for very many actors that takes longer than all else, and a
// process that trains has better things to do. kDataLoss: it is none.
StatusOr<std::string> with_waits(std::string frame);
StatusOr<std::string> rows_view(const Asked& asked, Replies replies);     // [rows]
StatusOr<std::string> mailbox_view(const Asked& asked, Replies replies);  // [actor]
StatusOr<std::string> told_view(const Asked& asked, Replies replies);     // [pause, resume, step]
StatusOr<std::string> peek_view(const Asked& asked, Replies replies);     // [peek]
StatusOr<std::string> trace_view(const Asked& asked, Replies replies);    // [trace]
StatusOr<std::string> compute_view(const Asked& asked, Replies replies);  // [report]
StatusOr<std::string> waits_view(const Asked& asked, Replies replies);    // [report]
StatusOr<std::string> config_view(const Asked& asked, Replies replies);   // [config], of the first that has any: it is the same on all
StatusOr<std::string> metrics_view(const Asked& asked, Replies replies);  // [report], for Prometheus

}  // namespace troupe::actors
