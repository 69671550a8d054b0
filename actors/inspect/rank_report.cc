#include "actors/inspect/rank_report.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

#include "absl/strings/numbers.h"
#include "actors/inspect/runtime_folder.h"
#include "runtime/trace/process_memory.h"

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;

constexpr auto kCollectivesWithin = 100ms;

std::vector<comm::CollectiveEngine::OpenOperation> open_operations(comm::CollectiveEngine& engine) {
  struct Told {
    std::mutex mutex;
    std::condition_variable came;
    std::optional<std::vector<comm::CollectiveEngine::OpenOperation>> open;
  };
  const auto told = std::make_shared<Told>();  // the answer may come when nobody waits for it any more
  engine.report([told](std::vector<comm::CollectiveEngine::OpenOperation> open) {
    const std::lock_guard lock(told->mutex);
    told->open = std::move(open);
    told->came.notify_all();
  });
  std::unique_lock lock(told->mutex);
  told->came.wait_for(lock, kCollectivesWithin, [&] { return told->open.has_value(); });
  return std::move(told->open).value_or(std::vector<comm::CollectiveEngine::OpenOperation>());
}

std::vector<int> numbers(const std::vector<Rank>& ranks) {
  std::vector<int> numbers;
  for (const Rank rank : ranks) numbers.push_back(rank.value);
  return numbers;
}

// The rank that NAME@RANK.port stands for; -1: none.
int rank_in(const std::string& end, int own) {
  const std::size_t at = end.rfind('@');
  if (at == std::string::npos) return -1;
  int rank = -1;
  const std::string after = end.substr(at + 1, end.find('.', at) - at - 1);
  return absl::SimpleAtoi(after, &rank) && rank != own ? rank : -1;
}

}  // namespace

trace::RankReport rank_report(const RankSources& sources, const ReportWanted& wanted) {
  trace::RankReport report;
  report.rank = sources.rank.value;
  report.host = this_host();
  report.pid = getpid();
  report.at_unix_s = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  report.restarts = sources.restarts;
  const auto memory = trace::process_memory();
  report.memory_bytes = memory.bytes;
  report.memory_peak_bytes = memory.peak_bytes;
  report.snapshot = sources.probes->snapshot(wanted.detail, wanted.lists);
  if (sources.training != nullptr) report.training = sources.training->row();
  for (const auto& [stream, kind] : sources.probes->streams()) {
    report.streams.push_back(stream->row());
    report.streams.back().kind = kind;
  }
  for (auto& edge : report.snapshot.edges) {
    edge.from_rank = rank_in(edge.from, report.rank);
    edge.to_rank = rank_in(edge.to, report.rank);
  }
  if (sources.engine == nullptr || !wanted.collectives) return report;
  for (const auto& operation : open_operations(*sources.engine)) {
    report.collectives.push_back({.group = operation.group,
                                  .sequence = operation.id.value,
                                  .what = operation.what,
                                  .since_ns = operation.since_ns,
                                  .entered = numbers(operation.entered),
                                  .missing = numbers(operation.missing)});
  }
  return report;
}

}  // namespace troupe::actors
