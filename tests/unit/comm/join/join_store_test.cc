// The store between threads that play processes: waits, ends, strangers.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <ctime>
#include <map>
#include <optional>
#include <thread>

#include "comm/join/join.h"
#include "comm/join/socket.h"
#include "comm/join/store_protocol.h"
#include "runtime/base/rng.h"
#include "runtime/base/sanitizer.h"
#include "tests/unit/comm/join/served_store.h"

namespace troupe::comm {
namespace {

using namespace std::chrono_literals;

class JoinStore : public ServedStore {
 protected:
  void serve(int world, std::chrono::milliseconds strangers_have = 5000ms) {
    ServedStore::serve({.world = world, .strangers_have = strangers_have});
  }
};

TEST_F(JoinStore, AValueIsWaitedFor) {
  serve(2);
  each([&](int rank) {
    const auto store = client(rank);
    if (rank == 0) {
      const auto got = store->get("key", after(kPatience));
      ASSERT_TRUE(got.ok()) << got.status().message();
      EXPECT_EQ(*got, std::string("a\0b", 3));
      EXPECT_EQ(store->set("seen", ""), ok());
    } else {
      EXPECT_EQ(store->set("key", std::string("a\0b", 3)), ok());
      EXPECT_EQ(store->get("seen", after(kPatience)).status(), ok());
      EXPECT_EQ(store->set("key", "newer"), ok());
      EXPECT_EQ(*store->get("key", after(kPatience)), "newer");
    }
    EXPECT_EQ(store->goodbye(), ok());
  });
  EXPECT_TRUE(server_->wait_until_left(after(kPatience)));
  EXPECT_TRUE(causes().empty()) << causes()[0].reason;
}

TEST_F(JoinStore, AMissingValueIsNamedWhenTheDeadlineComes) {
  serve(1);
  const auto store = client(0);
  const auto got = store->get("nothing", after(20ms));
  EXPECT_EQ(got.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_NE(got.status().message().find("'nothing'"), std::string::npos) << got.status().message();
  EXPECT_EQ(store->set("k", "v"), ok()) << "and the client goes on";
}

TEST_F(JoinStore, CountersAddUp) {
  serve(8);
  std::atomic<std::int64_t> last = 0;
  each([&](int rank) {
    const auto store = client(rank);
    for (int i = 0; i < 50; ++i) {
      const auto sum = store->add("count", 3);
      ASSERT_TRUE(sum.ok());
      for (auto seen = last.load(); seen < *sum && !last.compare_exchange_weak(seen, *sum);) {
      }
    }
    EXPECT_EQ(store->goodbye(), ok());
  });
  EXPECT_EQ(last, 8 * 50 * 3);
}

TEST_F(JoinStore, ABarrierHoldsUntilAllHaveComeAndCanBeUsedAgain) {
  serve(6);
  std::atomic<int> before = 0;
  each([&](int rank) {
    const auto store = client(rank);
    for (int round = 1; round <= 20; ++round) {
      ++before;
      ASSERT_EQ(store->barrier("b", 6, after(kPatience)), ok());
      EXPECT_GE(before, 6 * round);
    }
    EXPECT_EQ(store->goodbye(), ok());
  });
}

TEST_F(JoinStore, ABarrierNamesWhoIsMissing) {
  serve(4);
  const auto zero = client(0), two = client(2);
  std::thread waits([&] { EXPECT_EQ(two->barrier("b", 4, after(kPatience)).code(), absl::StatusCode::kInvalidArgument); });
  Status status = absl::OkStatus();
  ASSERT_TRUE(wait_until([&] {
    status = zero->barrier("b", 4, after(10ms));
    return status.message().find("2 of 4") != std::string::npos;
  })) << status.message();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_NE(status.message().find("ranks 1, 3"), std::string::npos) << status.message();
  // and ranks that do not mean the same are told so, all of them
  const Status other = zero->barrier("b", 3, after(kPatience));
  EXPECT_NE(other.message().find("rank 0 waits for 3 ranks, rank 2 for 4"), std::string::npos) << other.message();
  waits.join();
}

TEST_F(JoinStore, SixtyFourExchangeTheirAddresses) {
  serve(64);
  each([&](int rank) {
    const auto store = client(rank);
    // together more than a frame holds
    const auto addresses = store->exchange(std::to_string(rank) + std::string(20'000, 'a'), after(kPatience));
    ASSERT_TRUE(addresses.ok()) << addresses.status().message();
    ASSERT_EQ(addresses->size(), 64u);
    for (int other = 0; other < 64; ++other)
      EXPECT_EQ((*addresses)[static_cast<std::size_t>(other)], std::to_string(other) + std::string(20'000, 'a'));
    EXPECT_EQ(store->exchange("again", after(kPatience)).status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(store->goodbye(), ok());
  });
}

TEST_F(JoinStore, AnExchangeNamesWhoIsMissingAndCanBeTriedAgain) {
  serve(2);
  const auto zero = client(0);
  const auto alone = zero->exchange("a", after(20ms));
  EXPECT_EQ(alone.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_NE(alone.status().message().find("rank 1 of 2"), std::string::npos) << alone.status().message();
  const auto one = client(1);
  std::thread other([&] { EXPECT_EQ(*one->exchange("b", after(kPatience)), (std::vector<std::string>{"c", "b"})); });
  EXPECT_EQ(*zero->exchange("c", after(kPatience)), (std::vector<std::string>{"c", "b"}));
  other.join();
}

TEST_F(JoinStore, AbortEndsEveryWaitWithTheFirstCause) {
  serve(3);
  std::atomic<int> waiting = 0;
  each([&](int rank) {
    const auto store = client(rank);
    ++waiting;
    if (rank == 2) {
      ASSERT_TRUE(wait_until([&] { return waiting == 3; }));
      EXPECT_EQ(store->check(), ok());
      EXPECT_EQ(store->abort("disk full", Rank{2}), ok());
    }
    const Status status = rank == 0 ? store->get("never", after(kPatience)).status() : store->barrier("never", 3, after(kPatience));
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    EXPECT_NE(status.message().find("rank 2 ended the job: disk full"), std::string::npos) << status.message();
    // later calls, too
    EXPECT_EQ(store->set("k", "v").code(), absl::StatusCode::kAborted);
    EXPECT_EQ(store->check().code(), absl::StatusCode::kAborted);
    ASSERT_TRUE(store->cause());
    EXPECT_EQ(store->cause()->rank, Rank{2});
    EXPECT_FALSE(store->cause()->lost);
  });
  // and who comes later
  EXPECT_EQ(StoreClient::connect(options(1), after(kPatience)).status().code(), absl::StatusCode::kAborted);
  ASSERT_EQ(causes().size(), 1u);
  EXPECT_EQ(causes()[0].rank, Rank{2});
}

// Who ends because of another does not take the blame, even if he is heard first.
TEST_F(JoinStore, AnAbortBecauseOfAnotherRankBlamesThatOne) {
  serve(3);
  const auto one = client(1), two = client(2);
  EXPECT_EQ(one->abort("rank 0 is down: connection reset", Rank{0}), ok());
  EXPECT_EQ(two->get("never", after(kPatience)).status().message(), "rank 0 is down: connection reset (heard from rank 1)");
  EXPECT_EQ(two->cause()->rank, Rank{0});
  EXPECT_TRUE(two->cause()->lost);
}

TEST_F(JoinStore, AnAbortThatBlamesNobodyOfTheJobIsNoRequest) {
  serve(3);
  const auto one = client(1), two = client(2);
  EXPECT_EQ(one->abort("rank 3 is down", Rank{3}), ok());
  EXPECT_EQ(two->get("never", after(kPatience)).status().message(), "rank 1 is gone: it sent what is no request");
}

TEST_F(JoinStore, TheLauncherEndsTheJob) {
  serve(1);
  const auto store = client(0);
  server_->abort("--timeout");
  const Status status = store->get("never", after(kPatience)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(status.message(), "--timeout");
  EXPECT_EQ(store->cause()->rank, Rank{-1});
}

TEST_F(JoinStore, ALostRankEndsEveryWaitAndIsNamed) {
  serve(3);
  std::atomic<int> there = 0;
  each([&](int rank) {
    auto store = client(rank);
    ++there;
    if (rank == 1) {
      ASSERT_TRUE(wait_until([&] { return there == 3; }));
      store.reset();  // no goodbye
      return;
    }
    const Status status = store->exchange("address", after(kPatience)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    EXPECT_NE(status.message().find("rank 1 is gone"), std::string::npos) << status.message();
  });
  ASSERT_EQ(causes().size(), 1u);
  EXPECT_EQ(causes()[0].rank, Rank{1});
  EXPECT_TRUE(causes()[0].lost);
}

TEST_F(JoinStore, AStoreThatGoesIsUnavailable) {
  serve(1);
  const auto store = client(0);
  server_.reset();
  EXPECT_EQ(store->get("never", after(kPatience)).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(store->check().code(), absl::StatusCode::kUnavailable);
}

TEST_F(JoinStore, NobodyThereIsSaidWithTheAddress) {
  serve(1);
  auto wrong = options(0);
  server_.reset();
  const Status status = StoreClient::connect(wrong, after(100ms)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_NE(status.message().find("127.0.0.1"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("refused"), std::string::npos) << status.message();
}

// Something else at the first of several addresses, that takes connections and never says a word.
TEST_F(JoinStore, AnAddressThatIsSilentDoesNotKeepFromTheNext) {
  serve(1);
  const int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(server_->port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
  const int on = 1;
  setsockopt(silent, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  ASSERT_EQ(bind(silent, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(silent, 8), 0);
  auto both = options(0);
  both.hosts = "127.0.0.2,127.0.0.1";
  const Deadline half = after(kPatience / 2);
  const auto store = StoreClient::connect(both, after(kPatience));
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_LT(std::chrono::steady_clock::now(), half) << "the silent one had all the time";
  EXPECT_EQ((*store)->set("k", "v"), ok());
  close(silent);
}

// As after a restart of the job at the same port, when a process of the former run still looks for its store.
TEST_F(JoinStore, AHelloOfAFormerRunIsRefusedAndCounted) {
  const std::map<std::string, std::string> torchrun{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "2"},
                                                    {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}, {"TORCHELASTIC_RUN_ID", "run"}};
  const auto secret_of = [&](const char* count) {
    const auto place = find_place([&](const char* name) -> std::optional<std::string> {
      if (name == std::string("TORCHELASTIC_RESTART_COUNT")) return count;
      const auto found = torchrun.find(name);
      return found == torchrun.end() ? std::nullopt : std::optional(found->second);
    });
    return place.value().secret;
  };
  auto server = StoreServer::start({.loopback_only = true, .secret = secret_of("1"), .world = 2});
  ASSERT_TRUE(server.ok());
  const auto at = [&](const char* count) {
    return StoreClient::connect(
        {.hosts = "127.0.0.1", .port = (*server)->port(), .secret = secret_of(count), .rank = Rank{0}, .world = 2, .build = kBuild}, after(kPatience));
  };
  EXPECT_EQ(at("0").status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(wait_until([&] { return (*server)->refused() == 1; }));
  EXPECT_TRUE(at("1").ok());
}

TEST_F(JoinStore, AValueThatHasNoRoomLeavesTheOldOne) {
  serve(1);
  const auto store = client(0);
  ASSERT_EQ(store->set("mine", "old"), ok());
  const std::string much(protocol::kValueBytesMost, 'v');
  Status full;
  for (int i = 0; full.ok() && i < 1000; ++i) full = store->set("key " + std::to_string(i), much);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(store->set("mine", much).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(store->get("mine", after(kPatience)).value(), "old");
  EXPECT_EQ(store->set("mine", "new"), ok());
}

// Who comes when no descriptor is left waits in the queue; meanwhile the store's thread does not spin.
TEST_F(JoinStore, WithoutDescriptorsItWaits) {
  serve(1);
  const int late = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest_free = dup(late);
  close(lowest_free);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(lowest_free);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(server_->port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int connected = connect(late, reinterpret_cast<sockaddr*>(&address), sizeof address);
  const std::string hello = Stranger::hello();
  const ssize_t said = ::send(late, hello.data(), hello.size(), MSG_NOSIGNAL);
  const auto cpu_ms = [] {
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return used.tv_sec * 1000 + used.tv_nsec / 1'000'000;
  };
  const auto used = cpu_ms();
  pollfd answered{late, POLLIN, 0};
  const int early = poll(&answered, 1, 500);
  const auto spent = cpu_ms() - used;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(connected, 0);
  EXPECT_EQ(said, static_cast<ssize_t>(hello.size()));
  EXPECT_EQ(early, 0) << "there was a descriptor";
  EXPECT_LT(spent, 200);
  EXPECT_EQ(poll(&answered, 1, 60000), 1);
  close(late);
}

TEST_F(JoinStore, AWrongSecretIsRefusedOnBothSides) {
  serve(2);
  auto wrong = options(0);
  wrong.secret = "Secret";
  EXPECT_EQ(StoreClient::connect(wrong, after(kPatience)).status().code(),
            absl::StatusCode::kPermissionDenied);  // the client finds the store's proof wrong
  EXPECT_TRUE(wait_until([&] { return server_->refused() == 1; }));
  // One that takes any store gets no further: the proof it gives is wrong.
  const Stranger stranger(server_->port());
  stranger.say(Stranger::hello());
  EXPECT_EQ(type_of(stranger.hear_a_frame()), protocol::kChallenge);
  stranger.say(std::move(FrameWriter(protocol::kProof).raw(std::string(32, 'p'))).finish());
  EXPECT_EQ(stranger.hear_to_the_end(), "");
  EXPECT_EQ(server_->refused(), 2);
  EXPECT_TRUE(causes().empty()) << "a stranger's end is not the job's";
}

// A proof heard on one connection opens no other: nonces are fresh.
TEST_F(JoinStore, AProofIsGoodOnce) {
  serve(2);
  std::string nonce;
  for (int i = 0; i < 2; ++i) {
    const Stranger stranger(server_->port());
    stranger.say(Stranger::hello());
    const std::string challenge = stranger.hear_a_frame();
    FrameReader reader(challenge);
    reader.u16();
    if (nonce.empty()) nonce = reader.raw(kNonceBytes);
    stranger.say(std::move(FrameWriter(protocol::kProof)
                               .raw(protocol::client_proof("secret", std::string_view(Stranger::hello()).substr(4), nonce)))
                     .finish());
    EXPECT_EQ(type_of(stranger.hear_a_frame()), i == 0 ? protocol::kWelcome : 0);
  }
  EXPECT_EQ(server_->refused(), 1);
}

TEST_F(JoinStore, AnotherBuildIsRefusedAndBothAreNamed) {
  serve(2);
  const auto zero = client(0);
  auto other = options(1);
  other.build = "1.0+def";
  const Status status = StoreClient::connect(other, after(kPatience)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  for (const char* said : {"rank 1 runs 1.0+def", "rank 0 runs 1.0+abc"})
    EXPECT_NE(status.message().find(said), std::string::npos) << status.message();
  EXPECT_EQ(zero->exchange("a", after(kPatience)).status().code(), absl::StatusCode::kAborted) << "nobody waits for it";
}

TEST_F(JoinStore, AnotherProtocolVersionIsRefusedAndBothAreNamed) {
  serve(2);
  const Stranger stranger(server_->port());
  stranger.say(Stranger::hello(9));
  const std::string refused = stranger.hear_a_frame();
  FrameReader reader(refused);
  EXPECT_EQ(reader.type(), protocol::kRefused);
  EXPECT_EQ(static_cast<absl::StatusCode>(reader.i32()), absl::StatusCode::kFailedPrecondition);
  const std::string why(reader.text());
  EXPECT_NE(why.find("version 9"), std::string::npos) << why;
  EXPECT_NE(why.find(absl::StrCat("version ", protocol::kVersion)), std::string::npos) << why;
  EXPECT_EQ(stranger.hear_to_the_end(), "");
}

TEST_F(JoinStore, ASecondProcessOfARankAndARankOfAnotherWorldAreTurnedAway) {
  serve(2);
  const auto zero = client(0);
  EXPECT_EQ(StoreClient::connect(options(0), after(kPatience)).status().code(), absl::StatusCode::kAlreadyExists);
  auto other = options(1);
  other.world = 3;
  EXPECT_EQ(StoreClient::connect(other, after(kPatience)).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(zero->set("k", "v"), ok()) << "the first is not disturbed";
}

TEST_F(JoinStore, TooLongRequestsAreRefusedAndLoseNothing) {
  serve(1);
  const auto store = client(0);
  EXPECT_EQ(store->set("k", std::string(protocol::kValueBytesMost + 1, 'v')).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store->set(std::string(protocol::kKeyBytesMost + 1, 'k'), "v").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store->set(std::string(kFrameBytesMost, 'k'), "v").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store->exchange(std::string(protocol::kAddressBytesMost + 1, 'a'), after(kPatience)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store->barrier("b", 2, after(kPatience)).code(), absl::StatusCode::kInvalidArgument);
  const std::string largest(protocol::kValueBytesMost, 'v');
  EXPECT_EQ(store->set("k", largest), ok());
  EXPECT_EQ(*store->get("k", after(kPatience)), largest);
}

TEST_F(JoinStore, AHugeLengthEndsAStrangerAtOnce) {
  serve(1);
  for (const char* length : {"\xff\xff\xff\xff", "\x01\x02\x00\x00"}) {  // 4 GiB, and more than a stranger may say
    const Stranger stranger(server_->port());
    stranger.say({length, 4});
    EXPECT_EQ(stranger.hear_to_the_end(), "");
  }
  EXPECT_EQ(server_->refused(), 2);
}

TEST_F(JoinStore, ASilentStrangerIsPutOut) {
  serve(1, 50ms);
  const Stranger silent(server_->port()), slow(server_->port());
  slow.say(Stranger::hello());
  EXPECT_EQ(silent.hear_to_the_end(), "");
  slow.hear_to_the_end();
  EXPECT_EQ(server_->refused(), 2);
  const auto store = client(0);
  EXPECT_EQ(store->set("k", "v"), ok());
}

TEST_F(JoinStore, ManySilentStrangersDoNotKeepTheRanksOut) {
  serve(1, 100ms);
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (int i = 0; i < 3 * protocol::kStrangersMost; ++i) strangers.push_back(std::make_unique<Stranger>(server_->port()));
  const auto store = client(0);
  EXPECT_EQ(store->set("k", "v"), ok());
}

// Frames with right lengths and random insides, right heads and random tails, and bytes that are nothing.
TEST_F(JoinStore, RandomBytesChangeNothing) {
  serve(2, 500ms);
  const auto store = client(0);
  ASSERT_EQ(store->set("key", "value"), ok());
  const RandomStream random({.seed = 11});
  std::uint64_t draw = 0;
  const auto byte = [&] { return static_cast<char>(random.at(draw++)); };
  const int frames = kSanitized ? 1500 : 10000, per_connection = 4;
  for (int i = 0; i < frames / per_connection; ++i) {
    const Stranger stranger(server_->port());
    for (int j = 0; j < per_connection; ++j) {
      std::string bytes(random.at(draw++) % 200, '\0');
      for (char& c : bytes) c = byte();
      switch (random.at(draw++) % 4) {
        case 0: break;
        case 1: bytes = std::move(FrameWriter(static_cast<std::uint8_t>(byte())).raw(bytes)).finish(); break;
        case 2:
          bytes = std::move(FrameWriter(protocol::kHello).raw(protocol::kMagic).u16(protocol::kVersion).raw(bytes)).finish();
          break;
        default:
          bytes = Stranger::hello();
          bytes[random.at(draw++) % bytes.size()] = byte();
      }
      stranger.say(bytes);
    }
  }
  ASSERT_TRUE(wait_until([&] { return server_->refused() >= frames / per_connection; })) << server_->refused();
  EXPECT_EQ(*store->get("key", after(kPatience)), "value");
  EXPECT_EQ(store->check(), ok());
  EXPECT_TRUE(causes().empty()) << causes()[0].reason;
}

// A member that speaks nonsense is lost; the job ends and nothing else happens.
TEST_F(JoinStore, RandomBytesOfAMemberEndTheJobInOrder) {
  const RandomStream random({.seed = 12});
  std::uint64_t draw = 0;
  for (int i = 0; i < (kSanitized ? 30 : 300); ++i) {
    serve(2);
    const auto store = client(1);
    std::optional<Stranger> member(std::in_place, server_->port());
    ASSERT_EQ(member->prove(Stranger::hello()), protocol::kWelcome);
    std::string bytes(random.at(draw++) % 300, '\0');
    for (char& c : bytes) c = static_cast<char>(random.at(draw++));
    member->say(std::move(FrameWriter(static_cast<std::uint8_t>(random.at(draw++) % 12)).raw(bytes)).finish());
    member.reset();
    const Status status = store->get("never", after(kPatience)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    EXPECT_NE(status.message().find("rank 0 is gone"), std::string::npos) << status.message();
  }
}

TEST(Join, AWorldOfOneNeedsNoStore) {
  auto joined = join(Place{}, "address", after(kPatience));
  ASSERT_TRUE(joined.ok());
  EXPECT_EQ(joined->addresses(), std::vector<std::string>{"address"});
  EXPECT_EQ(joined->store(), nullptr);
  EXPECT_EQ(joined->check(), ok());
  EXPECT_EQ(joined->abort(absl::InternalError("x")), ok());
  EXPECT_EQ(joined->leave(after(kPatience)), ok());
}

// As torchrun, Slurm and mpirun start it: rank 0 runs the store and stays until all have left.
TEST(Join, RankZeroRunsTheStoreWhereThereIsNoLauncher) {
  int port = 0;
  {
    const auto free = StoreServer::start({.secret = "s"});
    ASSERT_TRUE(free.ok());
    port = (*free)->port();
  }
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([=] {
      const Place place{
          .rank = Rank{rank}, .world = 4, .store_host = "127.0.0.1", .store_port = port, .secret = "s", .hosts_store = rank == 0};
      auto joined = join(place, std::to_string(rank), after(kPatience));
      ASSERT_TRUE(joined.ok()) << joined.status().message();
      EXPECT_EQ(joined->addresses(), (std::vector<std::string>{"0", "1", "2", "3"}));
      EXPECT_EQ(joined->store()->barrier("end", 4, after(kPatience)), ok());
      EXPECT_EQ(joined->leave(after(kPatience)), ok());
    });
  }
  for (auto& rank : ranks) rank.join();
}

// As mpirun on a host that has no rank starts it: the others look for the store where it is not.
TEST(Join, RankZeroSaysAtOnceThatTheStoreIsLookedForElsewhere) {
  const Place place{.world = 2, .store_host = "192.0.2.77,198.51.100.1", .store_port = 20077, .store_guess = "set TROUPE_STORE", .secret = "s", .hosts_store = true};
  const auto joined = join(place, "a", after(kPatience));
  EXPECT_EQ(joined.status().code(), absl::StatusCode::kFailedPrecondition) << joined.status();
  for (const char* part : {"rank 0", "192.0.2.77,198.51.100.1", "set TROUPE_STORE"})
    EXPECT_NE(joined.status().message().find(part), std::string::npos) << joined.status();
  // The others say it, too, when nobody answers.
  Place other = place;
  other.rank = Rank{1};
  other.hosts_store = false;
  other.store_host = "127.0.0.1";
  const auto alone = join(other, "b", after(300ms));
  EXPECT_EQ(alone.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_NE(alone.status().message().find("set TROUPE_STORE"), std::string::npos) << alone.status();
}

TEST(Socket, KnowsWhatIsThisHost) {
  std::array<char, 256> own{};
  ASSERT_EQ(gethostname(own.data(), own.size() - 1), 0);
  EXPECT_TRUE(any_is_here("127.0.0.1"));
  EXPECT_TRUE(any_is_here(own.data()));
  EXPECT_TRUE(any_is_here("192.0.2.77,localhost"));
  EXPECT_FALSE(any_is_here("192.0.2.77,198.51.100.1"));
}

TEST(Join, ATakenPortIsSaidWithWhatToDo) {
  const auto taken = StoreServer::start({.secret = "s"});
  ASSERT_TRUE(taken.ok());
  const Place place{.world = 2, .store_host = "127.0.0.1", .store_port = (*taken)->port(), .secret = "s", .hosts_store = true};
  const auto joined = join(place, "a", after(kPatience));
  ASSERT_FALSE(joined.ok());
  EXPECT_NE(joined.status().message().find("TROUPE_STORE"), std::string::npos) << joined.status().message();
}

}  // namespace
}  // namespace troupe::comm
