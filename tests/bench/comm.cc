#include "tests/bench/comm.h"

#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/check.h"
#include "tests/bench/comm_pair.h"
#include "tests/bench/comm_peers.h"
#include "tests/bench/pairs.h"

namespace troupe::bench {
namespace {

using comm::CollectiveKind;
using Seconds = std::function<StatusOr<double>()>;

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

// The progress threads of a pair that polls go to sleep before the peer's turn, and the peer's before theirs.
void settle() { std::this_thread::sleep_for(4 * LinkOptions{}.spin); }

// Whom ours is measured in turns with; without `seconds`, why not.
struct Peer {
  std::string name;
  Status missing;
  bool there() const { return missing.ok(); }
};

// Seconds of ours and of the peer's, in turns; without a peer `theirs` is empty.
struct Turns {
  std::vector<double> ours, theirs, ratios;
};

class CommBench {
 public:
  explicit CommBench(const CommOptions& options) : options_(options) {
    if (auto found = UcxPerftest::find(); found.ok()) {
      perftest_ = *found;
    } else {
      lose(ucx_, found.status());
    }
    if (auto started = MpiCollectives::start(options.mpi_source, 2); started.ok()) {
      mpi_collectives_ = std::move(*started);
      mpi_.name = mpi_collectives_->description();
    } else {
      lose(mpi_, started.status());
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
    TROUPE_ASSIGN_OR_RETURN(const Turns latency, in_turns([&] { return pair.measure({.what = Measurement::kPing, .count = pings}); }, ucx_,
                                                          [&] { return perftest_.ping_s(kSharedMemory, pings); }));
    rows_.push_back({"comm.latency.polling", median(latency.ours) * 1e6, "us", 3, median_or_0(latency.theirs) * 1e6,
                     absl::StrCat("8 bytes one way from transport to transport of another process over shared memory, both polling: half of there and "
                                  "back, the median of ", pings, "; median of repetitions; at most; ", peer_is(ucx_, "ucp_am_lat"))});
    return ok();
  }

  Status measure_sleepers() {
    TROUPE_ASSIGN_OR_RETURN(const auto pair, CommPair::open({.transports = kSharedMemory, .spin = std::chrono::microseconds(20)}));
    TROUPE_RETURN_IF_ERROR(measure_wake(*pair));
    return measure_heartbeat(*pair, "comm.heartbeat.p99", "shared memory");
  }

  Status measure_wake(CommPair& pair, bool actors = false) {
    const std::string name = absl::StrCat("comm.latency.armed", actors ? ".actors" : "");
    if (!wanted(name)) return ok();
    const std::int64_t messages = options_.quick ? 100 : 500;
    const Measurement what = actors ? Measurement::kActorWake : Measurement::kWake;
    TROUPE_ASSIGN_OR_RETURN(const auto woken, repeat([&] { return pair.measure({.what = what, .count = messages}); }));
    rows_.push_back({name, median(woken) * 1e6, "us", actors ? 80.0 : 0.0, 0,
                     absl::StrCat("8 bytes one way over shared memory, ", actors ? "from the handler of an actor to that of one in another process"
                                                                                 : "from send() in a thread of one process to the transport's handler in another",
                                  ", all threads asleep before each: median of ", messages, ", a millisecond apart; median of repetitions", actors ? "; at most" : "")});
    return ok();
  }

  Status measure_actors() {
    if (wanted("comm.latency.armed.actors")) {
      TROUPE_ASSIGN_OR_RETURN(const auto pair, CommPair::open({.actors = true, .transports = kSharedMemory, .spin = std::chrono::microseconds(20)}));
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
    TROUPE_ASSIGN_OR_RETURN(const auto pair, CommPair::open({.transports = kTcp, .spin = std::chrono::microseconds(20)}));
    return measure_heartbeat(*pair, "comm.heartbeat.p99.tcp", "tcp");
  }

  // From transport to transport, or from actor to actor along an edge.
  Status measure_bandwidth(CommPair& pair, const std::string& link, const char* transports, bool actors = false) {
    const std::string name = absl::StrCat("comm.bandwidth.64MiB.", link, actors ? ".actors" : "");
    if (!wanted(name)) return ok();
    const std::int64_t count = options_.quick ? 6 : 16;
    const auto ours = [&]() -> StatusOr<double> {
      TROUPE_ASSIGN_OR_RETURN(const double s, pair.measure({.what = actors ? Measurement::kActorBulk : Measurement::kBulk, .bytes = kBulkBytes, .count = count}));
      return s / static_cast<double>(count);
    };
    TROUPE_ASSIGN_OR_RETURN(const Turns turns,
                            in_turns(ours, ucx_, [&] { return perftest_.bulk_s(transports, kBulkBytes, count, kBulksOpen); }));
    add_ratio(name, 0.90, turns, ucx_, "ucp_am_bw", static_cast<double>(kBulkBytes),
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
                            in_turns(ours, mpi_, [&] { return mpi_collectives_->collective_s(kind, size.bytes, count_of(size)); }));
    add_ratio(row, bar, turns, mpi_, "the same in place", bus_bytes(kind, size, 2), definition);
    if (small) return ok();
    const auto by_copies = [&]() -> StatusOr<double> {
      TROUPE_ASSIGN_OR_RETURN(const double s, pair.measure({.what = Measurement::kCopies, .kind = kind, .bytes = size.bytes, .count = count_of(size)}));
      if (s < 0) return absl::UnavailableError("the kernel does not let one process read the memory of another");
      return s;
    };
    TROUPE_ASSIGN_OR_RETURN(const Turns with_copies, in_turns(ours, copies_, by_copies));
    add_ratio(row + ".over_copies", 0.75, with_copies, copies_, "in the same two processes, at the chunk size that is best there",
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
      lose(crowd_mpi, started.status());
    }
    TROUPE_ASSIGN_OR_RETURN(const auto ranks, CommPair::open({.ranks = kCrowd, .transports = kSharedMemory, .spin = std::chrono::microseconds(20)}));
    for (const CollectiveKind kind : kKinds) {
      for (const Size& size : kSizes) {
        if (!crowd_wants(kind, size)) continue;
        TROUPE_ASSIGN_OR_RETURN(const Turns turns, in_turns(by_engine(*ranks, kind, size), crowd_mpi,
                                                            [&] { return theirs->collective_s(kind, size.bytes, count_of(size)); }));
        add_ratio(row_of(kind, size) + end, 0, turns, crowd_mpi, "the same in place", bus_bytes(kind, size, kCrowd),
                  definition_of(kind, size, kCrowd, "asleep when there is nothing to do"));
      }
    }
    return ok();
  }

  Status measure_heartbeat(CommPair& pair, const char* name, const char* link) {
    if (!wanted(name)) return ok();
    const std::int64_t count = (1024 * kMiB) / kBulkBytes;
    TROUPE_ASSIGN_OR_RETURN(const auto late,
                            repeat([&] { return pair.measure({.what = Measurement::kHeartbeat, .bytes = kBulkBytes, .count = count}); }));
    rows_.push_back({name, median(late) * 1e3, "ms", 5, 0,
                     absl::StrCat("p99 of the time one way of control frames of 8 bytes, one every 200 us, while 1 GiB of bulks goes the same way over ", link,
                                  "; median of repetitions; at most")});
    return ok();
  }

  bool wanted(const std::string& row) const { return row.find(options_.only) != std::string::npos; }

  // ---- repetitions ----

  // One more goes before, for what only the first does: connections, pages, code.
  StatusOr<std::vector<double>> repeat(const Seconds& ours) {
    std::vector<double> all;
    for (int i = -1; i < options_.pairs; ++i) {
      settle();
      TROUPE_ASSIGN_OR_RETURN(const double one, ours());
      if (i >= 0) all.push_back(one);
    }
    return all;
  }

  StatusOr<Turns> in_turns(const Seconds& ours, Peer& peer, const Seconds& theirs) {
    TROUPE_RETURN_IF_ERROR(ours().status());  // warm
    if (peer.there()) {
      settle();
      if (const auto warm = theirs(); !warm.ok()) lose(peer, warm.status());
    }
    Turns turns;
    for (int i = 0; i < options_.pairs; ++i) {
      double mine = 0, other = 0;
      // Who goes first alternates, so that a drift of the machine falls on both.
      for (const bool our_turn : {i % 2 == 0, i % 2 == 1}) {
        settle();
        if (our_turn) {
          TROUPE_ASSIGN_OR_RETURN(mine, ours());
        } else if (peer.there()) {
          const auto measured = theirs();
          if (measured.ok()) other = *measured;
          if (!measured.ok()) lose(peer, measured.status());
        }
      }
      turns.ours.push_back(mine);
      if (!peer.there()) continue;
      turns.theirs.push_back(other);
      turns.ratios.push_back(other / mine);
    }
    if (!peer.there()) turns.theirs = turns.ratios = {};
    return turns;
  }

  void lose(Peer& peer, const Status& why) {
    peer.missing = why;
    std::fprintf(stderr, "bench comm: %s is not measured: %s\n", peer.name.c_str(), std::string(why.message()).c_str());
  }

  // ---- rows ----

  static double median_or_0(const std::vector<double>& values) { return values.empty() ? 0 : median(values); }

  static std::string peer_is(const Peer& peer, const char* what) {
    if (!peer.there()) return absl::StrCat("without a peer, for ", peer.missing.message());
    return absl::StrCat("peer: ", peer.name, ", ", what, ", in turns with ours");
  }

  void add_ratio(const std::string& name, double bar, const Turns& turns, const Peer& peer, const char* what, double bytes,
                 const std::string& definition) {
    const auto gb_per_s = [bytes](const std::vector<double>& seconds) { return seconds.empty() ? 0 : bytes * 1e-9 / median(seconds); };
    const bool compared = peer.there();
    rows_.push_back({name, median_or_0(turns.ratios), "ratio", compared ? bar : 0, gb_per_s(turns.theirs),
                     compared ? absl::StrCat("rate over the peer's: ", definition, "; median of pairs; ", peer_is(peer, what))
                              : absl::StrCat("no ratio: ", definition, "; ", peer_is(peer, what))});
    rows_.push_back({name + ".gb_per_s", gb_per_s(turns.ours), "GB/s", 0, gb_per_s(turns.theirs), absl::StrCat(definition, "; ", peer_is(peer, what))});
    const auto& again = compared ? turns.theirs : turns.ours;
    rows_.push_back({name + ".spread", spread_against_itself(again), "ratio", 0, 0,
                     absl::StrCat("pairs of ", compared ? "the peer" : "ours", " against itself, one after the other: half the distance between the quartiles, "
                                  "over the median")});
  }

  const CommOptions options_;
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
