// What one rank says of itself when somebody looks: its probes, and the collectives that are open.
// Threads: any but the transport's progress thread, which is asked for the collectives. One that does not answer at once is stuck or
// stopped, and the report comes without them.
#pragma once

#include <functional>
#include <string>

#include "comm/collective/engine.h"
#include "runtime/actor/system.h"
#include "runtime/base/ids.h"
#include "runtime/trace/registry.h"
#include "runtime/trace/report.h"
#include "runtime/trace/snapshot.h"
#include "runtime/trace/training_probe.h"

namespace troupe::actors {

// What of a rank can be looked at; all of it outlives whoever looks.
struct RankSources {
  Rank rank;
  const trace::ProbeRegistry* probes = nullptr;
  comm::CollectiveEngine* engine = nullptr;  // null where there is one rank
  const trace::TrainingProbe* training = nullptr;  // where the ledger is
  std::string config{}, plan{};  // the settings as TOML and what the plan says, for people; empty where there are none
  // One of its actors is told something; empty where they cannot be.
  std::function<StatusOr<actor::Controlled>(actor::Control, const std::string& actor)> control{};
  std::int64_t restarts = -1;  // of this process, see comm::Place
  std::function<std::int64_t()> refused{};  // how often somebody was, at its doors; empty: never
};

// What is asked of it: all, or one list, of those of a snapshot (`lists`) or the open collectives.
struct ReportWanted {
  trace::Detail detail = trace::Detail::kAll;
  trace::Lists lists = trace::Lists::kAll;
  bool collectives = true;
};
trace::RankReport rank_report(const RankSources& sources, const ReportWanted& wanted = {});

}  // namespace troupe::actors
