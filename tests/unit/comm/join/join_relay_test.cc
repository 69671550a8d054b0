// Relays between the store and ranks: two "hosts", each a relay at a name of its own, with threads that play processes.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "comm/join/join.h"
#include "runtime/base/rng.h"
#include "runtime/base/sanitizer.h"
#include "tests/unit/comm/join/served_store.h"

namespace troupe::comm {
namespace {

using namespace std::chrono_literals;

// Ranks 0 .. 2 are on host alpha, 3 .. 5 on host beta.
constexpr int kWorld = 6, kEach = 3;

std::string text(const Status& status) { return std::string(status.message()); }

class StoreRelayed : public ServedStore {
 protected:
  StoreRelayed() { serve(); }
  void serve() {
    relays_.clear();
    ServedStore::serve({.world = kWorld});
    for (const int host : {0, 1}) relays_.push_back(relay(host));
  }
  std::string name(int host) const { return absl::StrCat("troupe-test-", getpid(), "-", host == 0 ? "alpha" : "beta"); }
  std::unique_ptr<StoreRelay> relay(int host, Rank run_by = Rank{-1}, std::chrono::milliseconds strangers_have = 5000ms) const {
    auto started = StoreRelay::start({.name = name(host),
                                      .host = host == 0 ? "alpha" : "beta",
                                      .run_by = run_by,
                                      .store_hosts = "127.0.0.1",
                                      .store_port = server_->port(),
                                      .secret = "secret",
                                      .world = kWorld,
                                      .strangers_have = strangers_have},
                                     after(kPatience));
    EXPECT_TRUE(started.ok()) << text(started.status());
    return *std::move(started);
  }
  StoreClient::Options options(int rank) const override {
    return {.hosts = "@" + name(rank / kEach), .secret = "secret", .rank = Rank{rank}, .world = kWorld, .build = kBuild};
  }
  Status refusal(const StoreClient::Options& of) const { return StoreClient::connect(of, after(kPatience)).status(); }

  std::vector<std::unique_ptr<StoreRelay>> relays_;
};

TEST_F(StoreRelayed, RanksMeetAndTheStoreHasOneConnectionAHost) {
  each([&](int rank) {
    const auto store = client(rank);
    const std::string large(60'000, 'a');  // together more than a frame holds, when they come from twenty
    const auto addresses = store->exchange(absl::StrCat(rank, large), after(kPatience));
    ASSERT_TRUE(addresses.ok()) << text(addresses.status());
    for (int other = 0; other < kWorld; ++other) EXPECT_EQ(addresses->at(static_cast<std::size_t>(other)), absl::StrCat(other, large));
    EXPECT_EQ(server_->connections(), 2);
    if (rank == 4) {
      EXPECT_EQ(store->set("key", std::string(protocol::kValueBytesMost, 'v')), ok());
    }
    EXPECT_EQ(store->get("key", after(kPatience)).value_or(""), std::string(protocol::kValueBytesMost, 'v'));
    for (int round = 0; round < 10; ++round) {
      EXPECT_TRUE(store->add("count", 2).ok());
      EXPECT_EQ(store->barrier("b", kWorld, after(kPatience)), ok());
    }
    EXPECT_EQ(store->add("count", 0).value_or(-1), 2 * 10 * kWorld);
    EXPECT_EQ(store->goodbye(), ok());
  });
  for (const auto& relay : relays_) EXPECT_TRUE(relay->wait_until_left(after(kPatience)));
  EXPECT_TRUE(server_->wait_until_left(after(kPatience)));
  relays_.clear();
  EXPECT_TRUE(wait_until([&] { return server_->connections() == 0; }));
  EXPECT_TRUE(causes().empty()) << causes()[0].reason;
  EXPECT_EQ(server_->refused(), 0);
}

// A rank alone on its host has no relay; the store itself may be at its host's name.
TEST_F(StoreRelayed, RanksThatComeToTheStoreThemselvesMeetTheOthers) {
  relays_.clear();
  const std::string here = name(0);
  auto server = StoreServer::start({.local_name = here, .secret = "secret", .world = kWorld});
  ASSERT_TRUE(server.ok()) << text(server.status());
  server_ = *std::move(server);
  relays_.push_back(relay(1));
  each([&](int rank) {
    const auto store = client(rank);
    const auto addresses = store->exchange(absl::StrCat(rank), after(kPatience));
    ASSERT_TRUE(addresses.ok()) << text(addresses.status());
    EXPECT_EQ(*addresses, (std::vector<std::string>{"0", "1", "2", "3", "4", "5"}));
    EXPECT_EQ(server_->connections(), kEach + 1);
    EXPECT_EQ(store->barrier("seen", kWorld, after(kPatience)), ok());
    EXPECT_EQ(store->goodbye(), ok());
  });
}

TEST_F(StoreRelayed, ADeadlineNamesWhoIsMissing) {
  const auto zero = client(0), four = client(4);
  std::thread waits([&] { EXPECT_EQ(four->exchange("a", after(kPatience)).status().code(), absl::StatusCode::kAborted); });
  Status status;
  EXPECT_TRUE(wait_until([&] {
    status = zero->exchange("a", after(20ms)).status();
    return status.message().find("ranks 1, 2, 3, 5 of 6") != std::string::npos;
  })) << status.message();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(zero->abort("enough", Rank{0}), ok());
  waits.join();
}

TEST_F(StoreRelayed, ARelayMayBeThereBeforeTheStore) {
  int port = 0;
  {
    const auto free = StoreServer::start({.secret = "s"});
    port = (*free)->port();
  }
  relays_.clear();
  auto early = StoreRelay::start(
      {.name = name(0), .host = "alpha", .store_hosts = "127.0.0.1", .store_port = port, .secret = "secret", .world = kWorld}, after(kPatience));
  ASSERT_TRUE(early.ok());
  std::thread rank([&] { EXPECT_EQ(client(1)->set("k", "v"), ok()); });
  const Stranger waits(name(0));  // it listens, and nobody answers yet
  auto server = StoreServer::start({.port = port, .secret = "secret", .world = kWorld});
  ASSERT_TRUE(server.ok()) << text(server.status());
  rank.join();
}

TEST_F(StoreRelayed, TheFirstCauseReachesEverybodyAndWhoComesLater) {
  std::atomic<int> waiting = 0;
  each([&](int rank) {
    if (rank == 5) return;
    const auto store = client(rank);
    ++waiting;
    if (rank == 4) {
      ASSERT_TRUE(wait_until([&] { return waiting == 5; }));
      EXPECT_EQ(store->abort("disk full", Rank{4}), ok());
    }
    const Status status = rank % 2 ? store->get("never", after(kPatience)).status() : store->barrier("never", 6, after(kPatience));
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    EXPECT_EQ(text(status), "rank 4 ended the job: disk full");
    ASSERT_TRUE(store->cause());
    EXPECT_EQ(store->cause()->rank, Rank{4});
    EXPECT_FALSE(store->cause()->lost);
  });
  EXPECT_EQ(text(refusal(options(5))), "rank 4 ended the job: disk full");
  ASSERT_EQ(causes().size(), 1u);
  EXPECT_EQ(causes()[0].rank, Rank{4});
}

TEST_F(StoreRelayed, ARankThatVanishesBehindARelayIsNamed) {
  std::atomic<int> there = 0;
  each([&](int rank) {
    auto store = client(rank);
    ++there;
    if (rank == 4) {
      ASSERT_TRUE(wait_until([&] { return there == kWorld; }));
      store.reset();  // no goodbye
      return;
    }
    const Status status = store->exchange("address", after(kPatience)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    EXPECT_EQ(text(status), "rank 4 is gone: its connection to the relay of host beta closed without a goodbye");
    EXPECT_EQ(store->cause()->rank, Rank{4});
  });
  ASSERT_EQ(causes().size(), 1u);
  EXPECT_EQ(causes()[0].rank, Rank{4});
  EXPECT_TRUE(causes()[0].lost);
}

TEST_F(StoreRelayed, ARelayThatGoesIsNamedOnBothSides) {
  relays_[1].reset();
  relays_[1] = relay(1, Rank{3});
  const auto zero = client(0), three = client(3), five = client(5);
  relays_[1].reset();
  const Status behind = five->get("never", after(kPatience)).status();
  EXPECT_EQ(text(behind), "rank 3 is gone: the relay of host beta, which it ran, closed the connection");
  ASSERT_TRUE(five->cause());
  EXPECT_EQ(five->cause()->rank, Rank{3});
  const Status other = zero->get("never", after(kPatience)).status();
  EXPECT_NE(text(other).find("rank 3 is gone: the relay of host beta"), std::string::npos) << text(other);
  EXPECT_NE(text(other).find("with ranks 3, 5"), std::string::npos) << text(other);
  EXPECT_EQ(zero->cause()->rank, Rank{3});
}

// One that runs in a launcher's agent is no rank's.
TEST_F(StoreRelayed, AnAgentsRelayThatGoesIsNamedWithItsRanks) {
  const auto zero = client(0), four = client(4), five = client(5);
  relays_[1].reset();
  const Status behind = five->get("never", after(kPatience)).status();
  EXPECT_EQ(behind.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(text(behind), "the relay of host beta closed the connection");
  const Status other = zero->get("never", after(kPatience)).status();
  EXPECT_NE(text(other).find("rank 4 is gone: the relay of host beta"), std::string::npos) << text(other);
  EXPECT_NE(text(other).find("with ranks 4, 5"), std::string::npos) << text(other);
}

TEST_F(StoreRelayed, AStoreThatGoesIsSaidByTheRelay) {
  const auto zero = client(0);
  const std::string where = absl::StrCat("127.0.0.1:", server_->port());
  server_.reset();
  const Status status = zero->get("never", after(kPatience)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(text(status), absl::StrCat("the relay of host alpha has no store at ", where, ": it closed the connection"));
  EXPECT_EQ(text(refusal(options(1))), text(status)) << "and who comes later hears it, too";
}

TEST_F(StoreRelayed, WhoMayNotJoinIsToldWhyThroughTheRelay) {
  const auto zero = client(0);
  EXPECT_EQ(refusal(options(0)).code(), absl::StatusCode::kAlreadyExists);
  auto elsewhere = options(0);
  elsewhere.hosts = "@" + name(1);
  const Status twice = refusal(elsewhere);
  EXPECT_EQ(twice.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_NE(text(twice).find("there is a rank 0 in this job already, from host alpha"), std::string::npos) << text(twice);
  auto world = options(1);
  world.world = 3;
  EXPECT_EQ(refusal(world).code(), absl::StatusCode::kInvalidArgument);
  world = options(1);
  world.rank = Rank{kWorld};
  EXPECT_EQ(refusal(world).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(zero->set("k", "v"), ok()) << "the first is not disturbed";
  const Stranger old(name(1));
  old.say(Stranger::hello(2));
  const std::string refused = old.hear_a_frame();
  FrameReader reader(refused);
  EXPECT_EQ(static_cast<absl::StatusCode>(reader.i32()), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(reader.text()).find("version 2"), std::string::npos);
  auto build = options(4);
  build.build = "1.0+def";
  const Status other = refusal(build);
  EXPECT_EQ(other.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(text(other).find("rank 4 runs 1.0+def, rank 0 runs 1.0+abc"), std::string::npos) << text(other);
  EXPECT_EQ(zero->exchange("a", after(kPatience)).status().code(), absl::StatusCode::kAborted) << "nobody waits for it";
}

TEST_F(StoreRelayed, WhereNobodyListensThatIsSaidInTime) {
  relays_[0].reset();
  auto near = options(0);
  near.somebody_by = after(30ms);
  EXPECT_EQ(refusal(near).code(), absl::StatusCode::kNotFound);
}

TEST_F(StoreRelayed, AWrongSecretIsRefusedByTheRelay) {
  auto wrong = options(0);
  wrong.secret = "Secret";
  EXPECT_EQ(refusal(wrong).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(wait_until([&] { return relays_[0]->refused() == 1; }));
  const Stranger stranger(name(0));
  EXPECT_EQ(stranger.prove(Stranger::hello(), "Secret"), 0);
  EXPECT_EQ(relays_[0]->refused(), 2);
  EXPECT_EQ(server_->refused(), 0);
  EXPECT_TRUE(causes().empty()) << "a stranger's end is not the job's";
}

TEST_F(StoreRelayed, ASilentStrangerAtTheRelayIsPutOut) {
  relays_[0].reset();
  relays_[0] = relay(0, Rank{-1}, 50ms);
  const Stranger silent(name(0));
  EXPECT_EQ(silent.hear_to_the_end(), "");
  EXPECT_EQ(relays_[0]->refused(), 1);
  EXPECT_EQ(client(0)->set("k", "v"), ok());
}

TEST_F(StoreRelayed, RandomBytesAtTheRelayChangeNothing) {
  const auto store = client(0);
  ASSERT_EQ(store->set("key", "value"), ok());
  const RandomStream random({.seed = 21});
  std::uint64_t draw = 0;
  const int connections = kSanitized ? 300 : 2000;
  for (int i = 0; i < connections; ++i) {
    const Stranger stranger(name(0));
    for (int j = 0; j < 4; ++j) {
      std::string bytes(random.at(draw++) % 200, '\0');
      for (char& c : bytes) c = static_cast<char>(random.at(draw++));
      const auto kind = random.at(draw++) % 3;
      if (kind == 1) bytes = std::move(FrameWriter(static_cast<std::uint8_t>(random.at(draw++))).raw(bytes)).finish();
      if (kind == 2) {
        bytes = Stranger::hello(protocol::kVersion, random.at(draw++) % 2 ? protocol::Role::kRelay : protocol::Role::kRank);
        const auto place = random.at(draw++) % bytes.size();
        bytes[place] = static_cast<char>(random.at(draw++));
      }
      stranger.say(bytes);
    }
  }
  ASSERT_TRUE(wait_until([&] { return relays_[0]->refused() >= connections; })) << relays_[0]->refused();
  EXPECT_EQ(store->get("key", after(kPatience)).value_or(""), "value");
  EXPECT_EQ(store->check(), ok());
  EXPECT_TRUE(causes().empty()) << causes()[0].reason;
}

// Who knows the secret and speaks nonsense, as a rank or as a relay, ends the job and nothing else.
TEST_F(StoreRelayed, RandomBytesOfAMemberEndTheJobInOrder) {
  const RandomStream random({.seed = 22});
  std::uint64_t draw = 0;
  for (int i = 0; i < (kSanitized ? 30 : 200); ++i) {
    if (i > 0) serve();
    const auto store = client(4);
    const bool as_relay = i % 2;
    std::optional<Stranger> member;
    if (as_relay) member.emplace(server_->port());
    else member.emplace(name(0));
    auto hello = Stranger::hello(protocol::kVersion, as_relay ? protocol::Role::kRelay : protocol::Role::kRank);
    hello.replace(hello.find("troupe/s") + 8 + 2 + kNonceBytes + 1 + 4, 1, 1, static_cast<char>(kWorld));
    ASSERT_EQ(member->prove(hello), protocol::kWelcome);
    std::string bytes(random.at(draw++) % 300, '\0');
    for (char& c : bytes) c = static_cast<char>(random.at(draw++));
    if (as_relay && i % 4 == 1) bytes.insert(0, std::string(4, '\0'));  // of rank 0
    member->say(std::move(FrameWriter(static_cast<std::uint8_t>(random.at(draw++) % 14)).raw(bytes)).finish());
    member.reset();
    const Status status = store->get("never", after(kPatience)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    EXPECT_NE(text(status).find("rank 0 "), std::string::npos) << text(status);
  }
}

// A store that knows the secret and speaks nonsense: the relay's ranks hear of it.
TEST_F(StoreRelayed, RandomBytesOfAStoreEndTheRelaysRanksInOrder) {
  const RandomStream random({.seed = 23});
  std::uint64_t draw = 0;
  for (int i = 0; i < (kSanitized ? 20 : 100); ++i) {
    relays_.clear();
    const auto listener = listen_at(0, true);
    ASSERT_TRUE(listener.ok());
    auto relayed = StoreRelay::start({.name = name(0),
                                      .host = "alpha",
                                      .store_hosts = "127.0.0.1",
                                      .store_port = port_of(*listener),
                                      .secret = "secret",
                                      .world = kWorld},
                                     after(kPatience));
    ASSERT_TRUE(relayed.ok());
    ASSERT_TRUE(wait_for(*listener, POLLIN, after(kPatience)));
    std::string from;
    const Stranger store = Stranger::taken(accept_one(*listener, from));
    const std::string hello = store.hear_a_frame(), nonce(kNonceBytes, 'n');
    store.say(std::move(FrameWriter(protocol::kChallenge).u16(protocol::kVersion).raw(nonce).raw(protocol::store_proof("secret", hello, nonce)))
                  .finish());
    ASSERT_EQ(type_of(store.hear_a_frame()), protocol::kProof);
    store.say(std::move(FrameWriter(protocol::kWelcome).i32(-1).text("")).finish());
    std::thread rank([&] {
      const auto connected = StoreClient::connect(options(1), after(kPatience));
      const Status status = connected.ok() ? (*connected)->get("never", after(kPatience)).status() : connected.status();
      EXPECT_TRUE(absl::IsAborted(status)) << text(status);
      EXPECT_NE(text(status).find("the relay of host alpha has no store"), std::string::npos) << text(status);
    });
    ASSERT_EQ(type_of(store.hear_a_frame()), protocol::kEnter);
    std::string bytes(random.at(draw++) % 300, '\0');
    for (char& c : bytes) c = static_cast<char>(random.at(draw++));
    if (i % 2) {  // for rank 1, then whatever
      bytes = std::move(FrameWriter(0).u32(1).i32(1).u32(1)).finish().substr(5) + bytes;
      if (i % 4 == 1) bytes[12] = static_cast<char>(protocol::kAnswer);
    }
    std::uint8_t type = protocol::kDeliver;
    if (i % 2 == 0) type = static_cast<std::uint8_t>(random.at(draw++) % protocol::kAborted);  // that one means what it says
    store.say(std::move(FrameWriter(type).raw(bytes)).finish());
    store.hang_up();
    rank.join();
  }
}

// As torchrun, Slurm and mpirun start it on two hosts: rank 0 runs the store, rank 2 the relay of the other host.
TEST(JoinRelay, TheFirstRankOfAHostRunsItsRelay) {
  int port = 0;
  {
    const auto free = StoreServer::start({.secret = "s"});
    ASSERT_TRUE(free.ok());
    port = (*free)->port();
  }
  for (const bool one_host : {false, true}) {  // two that are one: the name is taken by the store
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < 4; ++rank) {
      ranks.emplace_back([=] {
        const Place place{.rank = Rank{rank},
                          .world = 4,
                          .local_rank = rank % 2,
                          .local_world = 2,
                          .store_host = "127.0.0.1",
                          .store_port = port,
                          .secret = "s",
                          .relay = absl::StrCat("troupe-test-", getpid(), "-", one_host ? 0 : rank / 2),
                          .hosts_relay = rank == 2,
                          .hosts_store = rank == 0};
        auto joined = join(place, std::to_string(rank), after(kPatience));
        ASSERT_TRUE(joined.ok()) << joined.status().message();
        EXPECT_EQ(joined->addresses(), (std::vector<std::string>{"0", "1", "2", "3"}));
        EXPECT_EQ(joined->store()->barrier("end", 4, after(kPatience)), ok());
        EXPECT_EQ(joined->leave(after(kPatience)), ok());
      });
    }
    for (auto& rank : ranks) rank.join();
  }
}

}  // namespace
}  // namespace troupe::comm
