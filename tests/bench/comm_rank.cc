#include "tests/bench/comm_rank.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "comm/collective/engine.h"
#include "comm/ucx/ucx_transport.h"
#include "runtime/base/check.h"
#include "runtime/base/clock.h"
#include "runtime/device/pool.h"
#include "tests/bench/comm_actors.h"
#include "tests/bench/rank_server.h"

namespace troupe::bench {
namespace {

using comm::CollectiveKind;
using std::chrono::microseconds;

constexpr comm::GroupId kAll{1};
// What a frame of 8 bytes says; any other number is the time at which it left.
constexpr std::int64_t kEcho = -1, kEnd = -2;
constexpr microseconds kBetweenWakes{1000}, kBetweenHeartbeats{200};

class CommRank {
 public:
  CommRank(int socket, int rank, const LinkOptions& options, CopyBoard& board)
      : ranks_(options.ranks), peer_(rank ^ 1), server_(socket, options), copies_(board, rank % 2, vector_.data()) {
    auto opened = comm::UcxTransport::open({.rank = Rank{rank}, .world = ranks_, .job = 42, .spin = options.spin});
    TROUPE_CHECK(opened.ok()) << opened.status();
    transport_ = std::move(*opened);
    transport_->handle(comm::Channel::kTest, [this](comm::Arrival arrival) { take(std::move(arrival)); });
    engine_ = std::make_unique<comm::CollectiveEngine>(*transport_);
    std::vector<Rank> all;
    for (int member = 0; member < ranks_; ++member) all.emplace_back(member);
    engine_->add_group(kAll, std::move(all));
  }
  ~CommRank() { transport_->stop(); }

  void serve() {
    server_.serve(*transport_, [this](const Order& order) { return measure(order); });
    leaving_ = true;
  }

 private:
  bool first() const { return transport_->rank() == Rank{0}; }
  std::int64_t now_ns() const { return clock_.now_ns(); }

  double measure(const Order& order) {
    switch (order.what) {
      case Measurement::kPing: return first() ? ping(order.count) : 0;
      case Measurement::kWake: return first() ? wake(order.count) : percentile(result(), 0.5);
      case Measurement::kBulk: return first() ? flood(order, false) : 0;
      case Measurement::kHeartbeat: return first() ? flood(order, true) : percentile(result(), 0.99);
      case Measurement::kCollective: return collective(order);
      case Measurement::kCopies: return copies(order);
      case Measurement::kActorWake:
      case Measurement::kActorBulk: break;
    }
    TROUPE_CHECK(false) << "for actors";
    return 0;
  }

  // Runs on the progress thread.
  void take(comm::Arrival arrival) {
    if (arrival.bulk_bytes() > 0) {
      TROUPE_CHECK(arrival.bulk_bytes() <= bulk_.bytes()) << arrival.bulk_bytes() << " bytes";
      // Over tcp a send ends when the last bytes have left: they may still be coming when we are told to go.
      arrival.fetch(bulk_.data(), [this](const Status& status) { TROUPE_CHECK(status.ok() || leaving_) << status; });
      return;
    }
    std::int64_t said = 0;
    TROUPE_CHECK(arrival.header().size() == sizeof said) << "a frame that nobody sent";
    std::memcpy(&said, arrival.header().data(), sizeof said);
    if (said == kEcho && first()) {
      pong();
    } else if (said == kEcho) {
      tell(kEcho);
    } else if (said == kEnd) {
      finish(std::exchange(samples_, {}));
    } else {
      samples_.push_back(now_ns() - said);
    }
  }

  void finish(Samples samples) { server_.finish(std::move(samples)); }
  Samples result() { return server_.result(); }

  void tell(std::int64_t what) { transport_->send({.to = peer_, .header = std::as_bytes(std::span(&what, 1))}); }

  // ---- small frames ----

  double ping(std::int64_t count) {
    transport_->post([this, count] {
      pings_left_ = count;
      left_ns_ = now_ns();
      tell(kEcho);
    });
    return 0.5 * percentile(result(), 0.5);
  }

  void pong() {
    const std::int64_t now = now_ns();
    samples_.push_back(now - left_ns_);
    if (--pings_left_ == 0) return finish(std::exchange(samples_, {}));
    left_ns_ = now;
    tell(kEcho);
  }

  // Both progress threads have long been asleep when a frame leaves.
  double wake(std::int64_t count) {
    auto due = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < count; ++i) {
      due += kBetweenWakes;
      std::this_thread::sleep_until(due);
      tell(now_ns());
    }
    tell(kEnd);
    return 0;
  }

  // ---- bulks ----

  double flood(const Order& order, bool with_heartbeats) {
    TROUPE_CHECK(order.bytes <= bulk_.bytes()) << order.bytes << " bytes";
    std::int64_t sent = 0, fetched = 0;  // of the progress thread
    std::function<void()> send_one = [&] {
      if (sent == order.count) return;
      ++sent;
      transport_->send({.to = peer_, .lane = comm::Lane::kBulk, .bulk = {bulk_.data(), static_cast<std::size_t>(order.bytes)},
                        .sent = [&](const Status& status) {
                          TROUPE_CHECK(status.ok()) << status;
                          send_one();
                          if (++fetched == order.count) finish({now_ns()});
                        }});
    };
    const std::int64_t begin = now_ns();
    transport_->post([&] {
      for (int i = 0; i < kBulksOpen; ++i) send_one();
    });
    if (with_heartbeats) {
      auto due = std::chrono::steady_clock::now();
      do {
        tell(now_ns());
        due = std::max(due + kBetweenHeartbeats, std::chrono::steady_clock::now());
      } while (!server_.finished_until(due));
      tell(kEnd);
    }
    const std::int64_t end = result().front();
    return with_heartbeats ? 0 : seconds(end - begin);
  }

  // ---- collectives ----

  double collective(const Order& order) {
    TROUPE_CHECK(order.bytes <= vector_.bytes()) << order.bytes << " bytes";
    const std::int64_t elements = order.bytes / static_cast<std::int64_t>(sizeof(float));
    if (checked_.emplace(order.kind, order.bytes).second) {
      check(order.kind, elements, [this](CollectiveKind kind, std::int64_t size, std::int64_t count) { return run(kind, size, count); });
    }
    return run(order.kind, elements, order.count);
  }

  // On this thread, while the progress threads sleep.
  double copies(const Order& order) {
    TROUPE_CHECK(ranks_ == 2 && order.bytes <= vector_.bytes()) << order.bytes << " bytes, " << ranks_ << " ranks";
    if (!copies_.allowed()) return -1;
    const std::int64_t elements = order.bytes / static_cast<std::int64_t>(sizeof(float));
    const auto by_copies = [&](CollectiveKind kind, std::int64_t size, std::int64_t count) { return copies_.run(kind, size, count); };
    if (copies_checked_.emplace(order.kind, order.bytes).second) {
      std::fill_n(values(), elements, 0.0f);
      by_copies(order.kind, elements, order.count);  // finds its chunk size: many runs, which would add up
      check(order.kind, elements, by_copies);
    }
    return by_copies(order.kind, elements, order.count);
  }

  float* values() { return reinterpret_cast<float*>(vector_.data()); }

  // Once for each kind and size: what is fast and wrong is worth nothing. Leaves zeros, which sums keep.
  template <class Run>
  void check(CollectiveKind kind, std::int64_t elements, const Run& once) {
    const auto parts = comm::Parts::equal(elements, ranks_);
    const int self = transport_->rank().value;
    std::fill_n(values(), elements, static_cast<float>(self + 1));
    once(kind, elements, 1);
    for (int owner = 0; owner < ranks_; ++owner) {
      if (kind == CollectiveKind::kReduceScatter && owner != self) continue;
      const float right = static_cast<float>(kind == CollectiveKind::kAllGather ? owner + 1 : ranks_ * (ranks_ + 1) / 2);
      TROUPE_CHECK(std::all_of(values() + parts.begin(owner), values() + parts.end(owner), [&](float value) { return value == right; }))
          << comm::name(kind) << " of " << elements << " gave something else than " << right;
    }
    std::fill_n(values(), elements, 0.0f);
  }

  // One after the other, each started where the one before ended; one and a barrier go before, as with the peers: the memory has left the
  // caches, and threads that have just woken may share a core. Seconds of one.
  double run(CollectiveKind kind, std::int64_t elements, std::int64_t count) {
    const comm::Collective one{.kind = kind, .data = vector_.data(), .parts = comm::Parts::equal(elements, ranks_), .what = "bench"};
    std::int64_t left = count, begin_ns = 0;
    std::function<void()> next = [&] {
      if (begin_ns == 0) begin_ns = now_ns();
      if (left-- == 0) return finish({now_ns() - begin_ns});
      start(one, next);
    };
    const std::function<void()> meet = [&] { start({.kind = CollectiveKind::kBarrier}, next); };
    count > 1 ? start(one, meet) : meet();
    return seconds(result().front()) / static_cast<double>(count);
  }

  void start(comm::Collective collective, const std::function<void()>& next) {
    engine_->start(kAll, comm::OperationId(++operations_), std::move(collective), [&next](const Status& status) {
      TROUPE_CHECK(status.ok()) << status;
      next();
    });
  }

  const int ranks_;
  const Rank peer_;
  RankServer server_;
  const SteadyClock clock_;
  device::BufferPool pool_{2 * kLinkBytesMost};
  const device::Buffer bulk_ = pool_.take("bulk", kLinkBytesMost);  // sent by the first, filled in the second
  const device::Buffer vector_ = pool_.take("vector", kLinkBytesMost);
  std::unique_ptr<comm::CollectiveEngine> engine_;
  std::unique_ptr<comm::UcxTransport> transport_;
  std::int64_t operations_ = 0;
  std::atomic<bool> leaving_{false};
  std::set<std::pair<CollectiveKind, std::int64_t>> checked_, copies_checked_;
  CopyPeer copies_;

  // The progress thread's.
  Samples samples_;
  std::int64_t pings_left_ = 0, left_ns_ = 0;
};

}  // namespace

void run_comm_rank(int socket, int rank, const LinkOptions& options, CopyBoard& board) {
  setenv("UCX_TLS", options.transports.c_str(), 1);
  options.actors ? run_actor_rank(socket, rank, options) : CommRank(socket, rank, options, board).serve();
}

}  // namespace troupe::bench
