#include "tests/bench/comm.h"

#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/check.h"
#include "tests/bench/comm_pair.h"
#include "tests/bench/comm_peers.h"
#include "tests/bench/pairs.h"
#include "tests/bench/turns.h"

namespace troupe::bench {
namespace {

using comm::CollectiveKind;

constexpr std::int64_t kKiB = 1 << 10, kMiB = 1 << 20;
constexpr std::int64_t kBulkBytes = 64 * kMiB;
struct Size {
  std::int64_t bytes;
  const char* name;
  std::int64_t count, quick_count;  // collectives in a row
};
constexpr Size kSizes[] = {{64 * kKiB, "64KiB", 1000, 200}, {4 * kMiB, "4MiB", 40, 10}, {64 * kMiB, "64MiB", 4, 2}};
constexpr CollectiveKind kKinds[] = {CollectiveKind::kAllReduce, CollectiveKind::kAllGather, CollectiveKind::kReduceScatter};
constexpr int kCrowd = 4;  // ranks, on however few cores
constexpr const char* kSharedMemory = "posix,sysv,cma,self";
constexpr const char* kTcp = "tcp,self";
constexpr std::chrono::microseconds kSleepy{20};  // of spinning, as in a job

class CommBench {
 public:
  // Progress threads that poll sleep before the peer's turn, and the peer before theirs.
  explicit CommBench(const CommOptions& options) : options_(options), turns_(options.pairs, 4 * LinkOptions{}.spin) {
    if (auto found = UcxPerftest::find(); found.ok()) {
      perftest_ = *found;
    } else {
      ucx_.lose(found.status());
    }
    if (auto started = MpiCollectives::start(options.mpi_source, 2); started.ok()) {
      mpi_collectives_ = std::move(*started);
      mpi_.name = mpi_collectives_->description();
    } else {
      mpi_.lose(started.status());
    }
  }

  StatusOr<std::vector<BenchRow>> rows() {
    TROUPE_RETURN_IF_ERROR(measure_polling());
    TROUPE_RETURN_IF_ERROR(measure_sleepers());
    TROUPE_RETURN_IF_ERROR(measure_tcp());
    TROUPE_RETURN_IF_ERROR(measure_actors());
    TROUPE_RETURN_IF_ERROR(measure_crowd());
    return std::move(rows_);
  }

 private:
  Status measure_polling() {
    TROUPE_ASSIGN_OR_RETURN(const auto pair, CommPair::open({.transports = kSharedMemory}));
    if (wanted("comm.latency.polling")) TROUPE_RETURN_IF_ERROR(measure_ping(*pair));
    TROUPE_RETURN_IF_ERROR(measure_bandwidth(*pair, "shared_memory", kSharedMemory));
    for (const CollectiveKind kind : kKinds) {
      for (const Size& size : kSizes) TROUPE_RETURN_IF_ERROR(measure_collective(*pair, kind, size));
    }
    return ok();
  }

  Status measure_ping(CommPair& pair) {
    const std::int64_t pings = options_.quick ? 5'000 : 50'000;
    TROUPE_ASSIGN_OR_RETURN(const Turns latency, turns_.in_turns([&] { return pair.measure({.what = Measurement::kPing, .count = pings}); }, ucx_,
                                                          [&] { return perftest_.ping_s(kSharedMemory, pings); }));
    rows_.push_back({"comm.latency.polling", median(latency.ours) * 1e6, "us", 3, latency.theirs.empty() ? 0 : median(latency.theirs) * 1e6,
                     absl::StrCat("8 bytes one way from transport to transport of another process over shared memory, both polling: half of there and "
                                  "back, the median of ", pings, "; median of repetitions; at most; ", peer_is(ucx_, "ucp_am_lat"))});
    return ok();
  }

  Status measure_sleepers() {
    TROUPE_ASSIGN_OR_RETURN(const auto pair, CommPair::open({.transports = kSharedMemory, .spin = kSleepy}));
    TROUPE_RETURN_IF_ERROR(measure_wake(*pair));
    return measure_heartbeat(*pair, "comm.heartbeat.p99", "shared memory");
  }

  Status measure_wake(CommPair& pair, bool actors = false) {
    const std::string name = absl::StrCat("comm.latency.armed", actors ? ".actors" : "");
    if (!wanted(name)) return ok();
    const std::int64_t messages = options_.quick ? 100 : 500;
    const Measurement what = actors ? Measurement::kActorWake : Measurement::kWake;
    TROUPE_ASSIGN_OR_RETURN(const auto woken, turns_.repeat([&] { return pair.measure({.what = what, .count = messages}); }));
    rows_.push_back({name, median(woken) * 1e6, "us", actors ? 80.0 : 0.0, 0,
                     absl::StrCat("8 bytes one way over shared memory, ",
                                  actors ? "from the handler of an actor to that of one in another process"
                                         : "from send() in a thread of one process to the transport's handler in another",
                                  ", all threads asleep before each: median of ", messages, ", a millisecond apart; median of repetitions",
                                  actors ? "; at most" : "")});
    return ok();
  }

  Status measure_actors() {
    if (wanted("comm.latency.armed.actors")) {
      TROUPE_ASSIGN_OR_RETURN(const auto pair, CommPair::open({.actors = true, .transports = kSharedMemory, .spin = kSleepy}));
      TROUPE_RETURN_IF_ERROR(measure_wake(*pair, true));
    }
    for (const auto& [link, transports] : {std::pair{"shared_memory", kSharedMemory}, std::pair{"tcp", kTcp}}) {
      if (!wanted(absl::StrCat("comm.bandwidth.64MiB.", link, ".actors"))) continue;
      TROUPE_ASSIGN_OR_RETURN(const auto pair, CommPair::open({.actors = true, .transports = transports}));
      TROUPE_RETURN_IF_ERROR(measure_bandwidth(*pair, link, transports, true));
    }
    return ok();
  }

  Status measure_tcp() {
    {
      TROUPE_ASSIGN_OR_RETURN(const auto pair, CommPair::open({.transports = kTcp}));
      TROUPE_RETURN_IF_ERROR(measure_bandwidth(*pair, "tcp", kTcp));
    }
    TROUPE_ASSIGN_OR_RETURN(const auto pair, CommPair::open({.transports = kTcp, .spin = kSleepy}));
    return measure_heartbeat(*pair, "comm.heartbeat.p99.tcp", "tcp");
  }

  // From transport to transport, or from actor to actor along an edge.
  Status measure_bandwidth(CommPair& pair, const std::string& link, const char* transports, bool actors = false) {
    const std::string name = absl::StrCat("comm.bandwidth.64MiB.", link, actors ? ".actors" : "");
    if (!wanted(name)) return ok();
    const std::int64_t count = options_.quick ? 6 : 16;
    const auto ours = [&]() -> StatusOr<double> {
      const Measurement what = actors ? Measurement::kActorBulk : Measurement::kBulk;
      TROUPE_ASSIGN_OR_RETURN(const double s, pair.measure({.what = what, .bytes = kBulkBytes, .count = count}));
      return s / static_cast<double>(count);
    };
    TROUPE_ASSIGN_OR_RETURN(const Turns turns,
                            turns_.in_turns(ours, ucx_, [&] { return perftest_.bulk_s(transports, kBulkBytes, count, kBulksOpen); }));
    add_ratio(rows_, name, 0.90, turns, ucx_, "ucp_am_bw", static_cast<double>(kBulkBytes),
              absl::StrCat(actors ? "tensors of 64 MiB along an edge from an actor to one in another process, with "
                                  : "bulks of 64 MiB from transport to transport, each fetched into a buffer, ",
                           kBulksOpen, actors ? " credits" : " under way at a time", ", over UCX_TLS=", transports));
    return ok();
  }

  static std::string row_of(CollectiveKind kind, const Size& size) {
    std::string word = comm::name(kind);
    for (char& letter : word) letter = letter == '-' ? '_' : letter;
    return absl::StrCat("comm.", word, ".", size.name);
  }

  std::int64_t count_of(const Size& size) const { return options_.quick ? size.quick_count : size.count; }

  Seconds by_engine(CommPair& ranks, CollectiveKind kind, const Size& size) const {
    return [&ranks, kind, bytes = size.bytes, count = count_of(size)] {
      return ranks.measure({.what = Measurement::kCollective, .kind = kind, .bytes = bytes, .count = count});
    };
  }

  std::string definition_of(CollectiveKind kind, const Size& size, int ranks, const char* how) const {
    return absl::StrCat(comm::name(kind), " of ", size.name, " of fp32 over ", ranks, " ranks",
                        kind == CollectiveKind::kAllGather ? "" : ", folded in member order", ", ", count_of(size),
                        " in a row at the collective engine, ", how, ": bus bandwidth, ", kind == CollectiveKind::kAllReduce ? "2 " : "",
                        "(n - 1) / n of the bytes over the time");
  }

  static double bus_bytes(CollectiveKind kind, const Size& size, int ranks) {
    return static_cast<double>(size.bytes) * (kind == CollectiveKind::kAllReduce ? 2 : 1) * (ranks - 1) / ranks;
  }

  Status measure_collective(CommPair& pair, CollectiveKind kind, const Size& size) {
    const std::string row = row_of(kind, size);
    if (!wanted(row)) return ok();
    const bool small = size.bytes < kMiB;
    const double bar = kind == CollectiveKind::kReduceScatter ? 0 : small ? 0.7 : 1.0;
    const Seconds ours = by_engine(pair, kind, size);
    const std::string definition = definition_of(kind, size, 2, "polling");
    TROUPE_ASSIGN_OR_RETURN(const Turns turns,
                            turns_.in_turns(ours, mpi_, [&] { return mpi_collectives_->collective_s(kind, size.bytes, count_of(size)); }));
    add_ratio(rows_, row, bar, turns, mpi_, "the same in place", bus_bytes(kind, size, 2), definition);
    if (small) return ok();
    const auto by_copies = [&]() -> StatusOr<double> {
      const Order order{.what = Measurement::kCopies, .kind = kind, .bytes = size.bytes, .count = count_of(size)};
      TROUPE_ASSIGN_OR_RETURN(const double s, pair.measure(order));
      if (s < 0) return absl::UnavailableError("the kernel does not let one process read the memory of another");
      return s;
    };
    TROUPE_ASSIGN_OR_RETURN(const Turns with_copies, turns_.in_turns(ours, copies_, by_copies));
    add_ratio(rows_, row + ".over_copies", 0.75, with_copies, copies_, "in the same two processes, at the chunk size that is best there",
              bus_bytes(kind, size, 2), definition);
    return ok();
  }

  // More ranks than cores: how it bears that, no bar.
  Status measure_crowd() {
    const std::string end = absl::StrCat(".", kCrowd, "_ranks");
    const auto crowd_wants = [&](CollectiveKind kind, const Size& size) { return size.bytes >= kMiB && wanted(row_of(kind, size) + end); };
    bool any = false;
    for (const CollectiveKind kind : kKinds) {
      for (const Size& size : kSizes) any = any || crowd_wants(kind, size);
    }
    if (!any) return ok();
    mpi_collectives_.reset();
    Peer crowd_mpi{"Open MPI", {}};
    std::unique_ptr<MpiCollectives> theirs;
    if (auto started = MpiCollectives::start(options_.mpi_source, kCrowd); started.ok()) {
      theirs = std::move(*started);
      crowd_mpi.name = theirs->description();
    } else {
      crowd_mpi.lose(started.status());
    }
    TROUPE_ASSIGN_OR_RETURN(const auto ranks, CommPair::open({.ranks = kCrowd, .transports = kSharedMemory, .spin = kSleepy}));
    for (const CollectiveKind kind : kKinds) {
      for (const Size& size : kSizes) {
        if (!crowd_wants(kind, size)) continue;
        TROUPE_ASSIGN_OR_RETURN(const Turns turns, turns_.in_turns(by_engine(*ranks, kind, size), crowd_mpi,
                                                            [&] { return theirs->collective_s(kind, size.bytes, count_of(size)); }));
        add_ratio(rows_, row_of(kind, size) + end, 0, turns, crowd_mpi, "the same in place", bus_bytes(kind, size, kCrowd),
                  definition_of(kind, size, kCrowd, "asleep when there is nothing to do"));
      }
    }
    return ok();
  }

  Status measure_heartbeat(CommPair& pair, const char* name, const char* link) {
    if (!wanted(name)) return ok();
    const std::int64_t count = (1024 * kMiB) / kBulkBytes;
    TROUPE_ASSIGN_OR_RETURN(const auto late,
                            turns_.repeat([&] { return pair.measure({.what = Measurement::kHeartbeat, .bytes = kBulkBytes, .count = count}); }));
    rows_.push_back({name, median(late) * 1e3, "ms", 5, 0,
                     absl::StrCat("p99 of the time one way of control frames of 8 bytes, one every 200 us, while 1 GiB of bulks goes the same way over ", link,
                                  "; median of repetitions; at most")});
    return ok();
  }

  bool wanted(const std::string& row) const { return row.find(options_.only) != std::string::npos; }

  const CommOptions options_;
  const TurnTaker turns_;
  Peer ucx_{"ucx_perftest", {}}, mpi_{"Open MPI", {}}, copies_{"process_vm_readv", {}};
  UcxPerftest perftest_;
  std::unique_ptr<MpiCollectives> mpi_collectives_;
  std::vector<BenchRow> rows_;
};

}  // namespace

StatusOr<std::vector<BenchRow>> bench_comm(const CommOptions& options) {
  TROUPE_CHECK(options.pairs >= 7) << options.pairs << " pairs: a median needs at least 7";
  return CommBench(options).rows();
}

}  // namespace troupe::bench
