// Frames over the simulated network: what the seam promises, on every seed, whatever befalls the ranks.
#include "comm/sim/sim_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "runtime/base/first_cause.h"
#include "tests/sim/fault.h"
#include "tests/sim/seeds.h"

namespace troupe::test {
namespace {

using comm::Arrival, comm::Channel, comm::Lane, comm::SimNetwork;

constexpr std::int64_t kTrafficNs = 5'000'000;
constexpr int kFramesEach = 12;
constexpr Channel kUsed[] = {Channel::kActors, Channel::kEdges, Channel::kTest};

// A frame says which it is; its bulk is filled with a byte that follows from that.
struct Label {
  std::int32_t from, to, channel, lane, number;
  std::byte fill() const { return static_cast<std::byte>(1 + (from * 131 + to * 31 + channel * 17 + lane * 7 + number) % 200); }
};
constexpr std::byte kOverwritten{0xee};

// Ranks that send frames to each other at times of the seed; each takes a bulk at once, later, or not at all.
class Exchange {
 public:
  Exchange(std::uint64_t seed, FaultKind kind) : draws_(seed) {
    world_ = 2 + static_cast<int>(draws_.below(3));
    comm::SimNetworkOptions options{.world = world_, .seed = seed};
    options.eager_bytes_most = draws_.one_in(2) ? 0 : 5'000;
    options.told_of_a_crash = draws_.one_in(2) ? 0 : 0.5;
    network = std::make_unique<SimNetwork>(clock, options);
    fault = Fault::draw(kind, draws_, world_, kTrafficNs, options.heartbeat_timeout_ns);
    for (int rank = 0; rank < world_; ++rank) {
      transports_.push_back(network->transport(Rank(rank)));
      auto& transport = *transports_.back();
      for (const Channel channel : kUsed) {
        transport.handle(channel, [this, &transport](Arrival arrival) { arrived(transport, std::move(arrival)); });
      }
      transport.on_peer_down([this, rank](Rank peer, const Status& cause) {
        EXPECT_TRUE(downs_.emplace(std::pair(Rank(rank), peer), clock.now_ns()).second) << "told twice";
        EXPECT_THAT(std::string(cause.message()), testing::HasSubstr(absl::StrCat("rank ", peer.value)));
      });
      network->at(draws_.below(kTrafficNs / 4), [&transport] { EXPECT_TRUE(transport.start().ok()); });
      for (int i = 0; i < kFramesEach; ++i) {
        network->at(draws_.below(kTrafficNs), [this, &transport] { send(transport); });
      }
    }
    fault.schedule(*network);
  }

  void run() {
    ASSERT_TRUE(test::run(clock, *network)) << "it does not end";
    for (const auto& sent : sent_) {
      EXPECT_TRUE(sent.completed == 1 || network->has_crashed(sent.from)) << sent.completed << " completions of a frame of rank " << sent.from;
    }
    EXPECT_EQ(network->unfinished(), "");
    for (const auto& [fetch, ended] : fetches_) EXPECT_TRUE(ended || network->has_crashed(fetch.first)) << "a fetch has not ended";
    for (int a = 0; a < world_; ++a) {
      for (int b = 0; b < world_; ++b) check_pair(Rank(a), Rank(b));
    }
  }

  VirtualClock clock;
  std::unique_ptr<SimNetwork> network;
  Fault fault;
  std::int64_t arrivals = 0;

 private:
  struct Sent {
    Rank from;
    std::vector<std::byte> bulk;
    int completed = 0;
  };

  void send(comm::Transport& transport) {
    const Rank from = transport.rank();
    if (!network->runs(from)) return;
    Label label{.from = from.value, .to = draws_.rank(world_).value};
    label.channel = static_cast<std::int32_t>(kUsed[draws_.below(3)]);
    label.lane = static_cast<std::int32_t>(draws_.below(2));
    label.number = numbers_[{label.from, label.to, label.channel, label.lane}].sent++;
    const std::int64_t sizes[] = {0, 1, 4'000, 60'000};
    auto& sent = sent_.emplace_back(Sent{.from = from, .bulk = std::vector<std::byte>(static_cast<std::size_t>(sizes[draws_.below(4)]), label.fill())});
    const bool was_down = downs_.contains({from, Rank(label.to)});
    transport.send({.to = Rank(label.to), .channel = static_cast<Channel>(label.channel), .lane = static_cast<Lane>(label.lane),
                    .header = std::as_bytes(std::span(&label, 1)), .bulk = sent.bulk,
                    .sent = [&sent, &transport, was_down](const Status& status) {
                      EXPECT_TRUE(transport.on_progress_thread());
                      ++sent.completed;
                      EXPECT_TRUE(status.ok() || absl::IsUnavailable(status) || absl::IsCancelled(status)) << status;
                      EXPECT_TRUE(!was_down || absl::IsUnavailable(status)) << status;
                      std::fill(sent.bulk.begin(), sent.bulk.end(), kOverwritten);
                    }});
    EXPECT_EQ(sent.completed, 0) << "completed within send";
  }

  void arrived(comm::Transport& transport, Arrival arrival) {
    ++arrivals;
    EXPECT_TRUE(transport.on_progress_thread());
    EXPECT_FALSE(downs_.contains({transport.rank(), arrival.from()})) << "a frame of one that is down";
    Label label{};
    ASSERT_EQ(arrival.header().size(), sizeof label);
    std::memcpy(&label, arrival.header().data(), sizeof label);
    EXPECT_EQ(label.to, transport.rank().value);
    EXPECT_EQ(label.from, arrival.from().value);
    auto& numbers = numbers_[{label.from, label.to, label.channel, label.lane}];
    EXPECT_EQ(label.number, numbers.arrived++) << "lost, doubled or out of order";
    if (arrival.bulk_bytes() == 0 || draws_.one_in(4)) return;  // the bulk, if any, is refused
    if (draws_.one_in(2)) return fetch(transport, label, std::move(arrival));
    auto kept = std::make_shared<Arrival>(std::move(arrival));
    network->at(clock.now_ns() + draws_.below(3'000'000), [this, &transport, label, kept] {
      transport.post([this, &transport, label, kept] { fetch(transport, label, std::move(*kept)); });
    });
  }

  void fetch(comm::Transport& transport, const Label& label, Arrival arrival) {
    auto into = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(arrival.bulk_bytes()));
    const std::pair key(transport.rank(), fetches_.size());
    fetches_[key] = false;
    arrival.fetch(into->data(), [this, key, into, label](const Status& status) {
      EXPECT_FALSE(std::exchange(fetches_[key], true)) << "a fetch ended twice";
      EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
      EXPECT_TRUE(!status.ok() || *into == std::vector<std::byte>(into->size(), label.fill()));
    });
    EXPECT_FALSE(fetches_[key]) << "ended within fetch";
  }

  void check_pair(Rank from, Rank to) const {
    SCOPED_TRACE(absl::StrCat("from rank ", from.value, " to rank ", to.value));
    const auto& traffic = network->traffic(from, to);
    const bool apart = fault.divides(from, to);
    const bool both_run = !network->has_crashed(from) && !network->has_crashed(to);
    EXPECT_EQ(network->takes_for_down(to, from), apart && !network->has_crashed(to));
    EXPECT_EQ(downs_.contains({to, from}), apart && !network->has_crashed(to));
    const auto down = downs_.find({to, from});
    EXPECT_LE(down == downs_.end() ? 0 : down->second, fault.heard_by_ns(*network) + kTrafficNs / 4);  // who starts later counts from then
    EXPECT_TRUE(apart || traffic.sent == traffic.arrived) << traffic.arrived << " of " << traffic.sent;
    EXPECT_TRUE(!both_run || traffic.sent == traffic.arrived + traffic.lost) << traffic.arrived << " + " << traffic.lost << " of " << traffic.sent;
  }

  struct Numbers {
    std::int32_t sent = 0, arrived = 0;
  };
  Draws draws_;
  int world_ = 0;
  std::vector<std::unique_ptr<comm::Transport>> transports_;
  std::deque<Sent> sent_;
  std::map<std::pair<Rank, std::size_t>, bool> fetches_;  // whether it has ended
  std::map<std::tuple<int, int, int, int>, Numbers> numbers_;
  std::map<std::pair<Rank, Rank>, std::int64_t> downs_;   // (who was told, of whom) -> when
};

TEST(SimNetwork, LosesAndDoublesNothingOnALiveLink) {  // CASES A02
  const std::uint64_t count = seeds(2'000, 100);
  std::int64_t arrivals = 0, events = 0;
  for (std::uint64_t seed = 0; seed < count && !testing::Test::HasFailure(); ++seed) {
    Exchange exchange(seed, static_cast<FaultKind>(seed % kFaultKinds));
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", ", exchange.fault.describe()));
    exchange.run();
    arrivals += exchange.arrivals;
    events += exchange.network->events();
  }
  printf("%d seeds, %d frames, %d events\n", static_cast<int>(count), static_cast<int>(arrivals), static_cast<int>(events));
  EXPECT_GT(arrivals, static_cast<std::int64_t>(count) * 20);
}

TEST(SimNetwork, TheSameSeedIsTheSameRun) {
  const auto order = [](std::uint64_t seed) {
    Exchange exchange(seed, FaultKind::kCrash);
    exchange.run();
    return exchange.network->order();
  };
  EXPECT_EQ(order(3), order(3));
  EXPECT_NE(order(3), order(4));
}

// Two ranks that have started, for what happens to single frames.
struct Two {
  explicit Two(std::size_t eager_bytes_most = 0) : network(clock, {.world = 2, .eager_bytes_most = eager_bytes_most}) {}
  void start() {
    ASSERT_TRUE(a->start().ok());
    ASSERT_TRUE(b->start().ok());
  }
  void send(std::span<const std::byte> bulk, Lane lane = Lane::kControl) {
    a->send({.to = Rank(1), .lane = lane, .bulk = bulk, .sent = [this](Status status) { sent.push_back(status.code()); }});
  }
  VirtualClock clock;
  SimNetwork network;
  std::unique_ptr<comm::Transport> a = network.transport(Rank(0)), b = network.transport(Rank(1));
  std::vector<absl::StatusCode> sent;
};

TEST(SimNetwork, OneThatStopsIsHeardToStopBehindWhatItSent) {
  Two two;
  int came = 0;
  std::string down;
  two.b->handle(Channel::kTest, [&](const Arrival&) { ++came; });
  two.b->on_peer_down([&](Rank, const Status& cause) {
    down = absl::StrCat(came, " frames, then ", std::string(cause.message()));
    EXPECT_LT(two.clock.now_ns(), 1'000'000);
  });
  two.start();
  for (int i = 0; i < 20; ++i) two.send({}, i % 2 == 0 ? Lane::kControl : Lane::kBulk);
  two.a->stop();
  EXPECT_EQ(two.sent, std::vector(20, absl::StatusCode::kUnavailable));
  EXPECT_TRUE(run(two.clock, two.network));
  EXPECT_EQ(down, "20 frames, then rank 0 is down: it stopped its transport");
}

TEST(SimNetwork, WhatIsSentAfterTheStopIsDropped) {
  Two two;
  two.a->stop();
  const std::vector<std::byte> bulk(20'000);
  for (const auto& some : {std::span<const std::byte>(), std::span<const std::byte>(bulk)})
    two.a->send({.to = Rank(1), .bulk = some, .sent = [](const Status&) { ADD_FAILURE() << "nothing is called after the stop"; }});
  two.a->post([] { ADD_FAILURE() << "nothing is called after the stop"; });
  EXPECT_TRUE(run(two.clock, two.network));
}

TEST(SimNetwork, OneThatFailsSaysWhyAndWithWhomItBegan) {
  Two two;
  Status cause;
  two.b->on_peer_down([&](Rank, const Status& why) { cause = why; });
  two.start();
  two.a->stop(due_to(Rank(7), "rank 7 is down: killed"));
  EXPECT_TRUE(run(two.clock, two.network));
  EXPECT_EQ(cause.message(), "rank 7 is down: killed (heard from rank 0)");
  ASSERT_TRUE(first_cause(cause));
  EXPECT_EQ(first_cause(cause)->rank, Rank(7));
}

// Its memory may be gone.
TEST(SimNetwork, NobodyFetchesFromOneThatHasStopped) {
  Two two;
  std::vector<std::byte> bulk(1000, std::byte{7}), into(1000);
  absl::StatusCode fetched = absl::StatusCode::kOk;
  two.b->handle(Channel::kTest, [&](Arrival arrival) {
    arrival.fetch(into.data(), [&](Status status) { fetched = status.code(); });
  });
  two.start();
  two.send(bulk);
  two.network.at(500'000, [&] { two.network.pause(Rank(1)); });
  two.network.pause(Rank(1));
  two.network.at(1'000'000, [&] {
    two.a->stop();
    std::fill(bulk.begin(), bulk.end(), kOverwritten);
  });
  two.network.at(2'000'000, [&] { two.network.resume(Rank(1)); });
  EXPECT_TRUE(run(two.clock, two.network));
  EXPECT_EQ(fetched, absl::StatusCode::kUnavailable);
  EXPECT_EQ(into, std::vector<std::byte>(1000));
}

TEST(SimNetwork, ABulkThatTravelsWithItsFrameIsSentOnceItHasLeft) {
  Two two(1000);
  std::vector<std::byte> bulk(1000, std::byte{7}), into(1000);
  two.b->handle(Channel::kTest, [&](Arrival arrival) { arrival.fetch(into.data(), [](const Status&) {}); });
  two.start();
  two.network.pause(Rank(1));
  two.send(bulk);
  two.network.at(1'000'000, [&] {
    EXPECT_EQ(two.sent, std::vector{absl::StatusCode::kOk});
    std::fill(bulk.begin(), bulk.end(), kOverwritten);
    two.network.resume(Rank(1));
  });
  EXPECT_TRUE(run(two.clock, two.network));
  EXPECT_EQ(into, std::vector(1000, std::byte{7}));
}

TEST(SimNetwork, ARefusedBulkTellsTheSender) {
  Two two;
  two.b->handle(Channel::kTest, [](const Arrival&) {});
  two.start();
  std::vector<std::byte> bulk(10);
  two.send(bulk);
  EXPECT_TRUE(run(two.clock, two.network));
  EXPECT_EQ(two.sent, std::vector{absl::StatusCode::kCancelled});
}

TEST(SimNetwork, AFrameWithoutHandlerIsRefusedAndCounted) {
  Two two;
  two.start();
  std::vector<std::byte> bulk(10);
  two.send(bulk);
  EXPECT_TRUE(run(two.clock, two.network));
  EXPECT_EQ(two.sent, std::vector{absl::StatusCode::kCancelled});
  EXPECT_EQ(two.b->counters().refused, 1);
}

TEST(SimNetwork, ASlowPeerGetsItsFramesLateAndIsNotTakenForDown) {
  const auto takes_ns = [](double factor) {
    Two two;
    std::int64_t came_ns = 0;
    two.b->handle(Channel::kTest, [&](const Arrival&) { came_ns = two.clock.now_ns(); });
    two.b->on_peer_down([](Rank, const Status&) { ADD_FAILURE(); });
    two.start();
    two.network.slow(Rank(1), factor);
    two.send({});
    EXPECT_TRUE(run(two.clock, two.network));
    return came_ns;
  };
  EXPECT_EQ(takes_ns(50) / takes_ns(1), 50);
}

}  // namespace
}  // namespace troupe::test
