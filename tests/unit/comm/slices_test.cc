// Slices of memory on the transport between threads.
#include "comm/slices/slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <future>
#include <random>
#include <thread>

#include "comm/local/local_transport.h"

namespace troupe::comm {
namespace {

using namespace std::chrono_literals;

class SlicesTest : public testing::Test {
 protected:
  static constexpr int kRanks = 3;
  // `machines`: which ranks share one; those from `played` on are played by the test.
  explicit SlicesTest(int world = kRanks, const std::vector<std::vector<int>>& machines = {{0}, {1}, {2}}, int played = 100) : hub_(world) {
    for (int rank = 0; rank < world; ++rank) transports_.push_back(hub_.transport(Rank(rank)));
    std::map<int, std::vector<Rank>> mates;
    for (const auto& machine : machines) {
      for (const int rank : machine) {
        for (const int mate : machine) mates[rank].push_back(Rank(mate));
      }
    }
    for (const auto& [rank, its] : mates) {
      if (rank >= played) break;
      auto& transport = transports_[static_cast<std::size_t>(rank)];
      slices_.push_back(std::make_unique<Slices>(*transport, its));
      transport->on_peer_down([slices = slices_.back().get()](Rank peer, const Status& cause) { slices->peer_down(peer, cause); });
    }
  }
  ~SlicesTest() override {
    for (auto& transport : transports_) transport->stop();
  }
  void start() {
    for (auto& transport : transports_) ASSERT_TRUE(transport->start().ok());
  }
  // Each rank shows `count` bytes of its own under each id.
  void show(std::vector<int> ids, std::size_t count, std::int64_t version = 1) {
    for (int rank = 0; rank < static_cast<int>(slices_.size()); ++rank) {
      for (const int id : ids) {
        auto& bytes = shown_.emplace_back();
        for (std::size_t i = 0; i < count; ++i) bytes.push_back(value(rank, id, i));
        slices_[static_cast<std::size_t>(rank)]->show(SliceId(id), bytes);
        if (version >= 0) slices_[static_cast<std::size_t>(rank)]->publish(SliceId(id), version);
      }
    }
  }
  static std::byte value(int rank, int id, std::size_t at) { return static_cast<std::byte>(static_cast<std::size_t>(rank * 31 + id * 7) + at * 13); }
  std::future<Status> fetch(int by, int owner, int id, std::span<std::byte> into, std::int64_t version = 1) {
    auto promise = std::make_shared<std::promise<Status>>();
    slices_[static_cast<std::size_t>(by)]->fetch(Rank(owner), SliceId(id), version, into, [promise](Status status) { promise->set_value(std::move(status)); });
    return promise->get_future();
  }
  static Status result(std::future<Status> future) {
    return future.wait_for(30s) == std::future_status::ready ? future.get() : absl::DeadlineExceededError("the fetch does not end");
  }

  LocalHub hub_;
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<std::unique_ptr<Slices>> slices_;
  std::deque<std::vector<std::byte>> shown_;
};

TEST_F(SlicesTest, BringsTheOwnersBytes) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{5000}, std::size_t{3'000'001}}) {
    const int id = static_cast<int>(shown_.size());
    show({id, id + 1}, count);
  }
  start();
  // all at once, from others and from oneself
  std::deque<std::vector<std::byte>> got;
  std::vector<std::future<Status>> ends;
  for (int by = 0; by < kRanks; ++by) {
    for (const auto& [id, count] : std::map<int, std::size_t>{{0, 0}, {6, 1}, {12, 5000}, {13, 5000}, {18, 3'000'001}}) {
      for (int owner = 0; owner < kRanks; ++owner) {
        auto& into = got.emplace_back(count);
        ends.push_back(fetch(by, owner, id, into));
      }
    }
  }
  for (auto& end : ends) EXPECT_EQ(result(std::move(end)), ok());
  auto next = got.begin();
  for (int by = 0; by < kRanks; ++by) {
    for (const int id : {0, 6, 12, 13, 18}) {
      for (int owner = 0; owner < kRanks; ++owner, ++next) {
        for (std::size_t i = 0; i < next->size(); ++i) ASSERT_EQ((*next)[i], value(owner, id, i)) << by << " " << id << " " << owner << " " << i;
      }
    }
  }
}

TEST_F(SlicesTest, NamesBothSidesOfAMismatch) {
  show({4}, 10);
  start();
  std::vector<std::byte> into(12);
  const Status size = result(fetch(0, 1, 4, into));
  EXPECT_EQ(size.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(size.message()), testing::HasSubstr("slice 4 of rank 1 has 10 bytes, rank 0 asked for 12"));
  const Status absent = result(fetch(0, 2, 9, into));
  EXPECT_THAT(std::string(absent.message()), testing::HasSubstr("rank 2 shows no slice 9"));
}

TEST_F(SlicesTest, WaitsForTheVersionAndNamesOneThatIsPast) {
  show({3}, 5000, -1);
  start();
  std::vector<std::byte> first(5000), own(5000), second(5000);
  auto early = fetch(0, 1, 3, first, 7), from_self = fetch(1, 1, 3, own, 7), later = fetch(2, 1, 3, second, 8);
  EXPECT_EQ(early.wait_for(50ms), std::future_status::timeout);
  slices_[1]->publish(SliceId(3), 7);
  EXPECT_EQ(result(std::move(early)), ok());
  EXPECT_EQ(result(std::move(from_self)), ok());
  EXPECT_EQ(first[9], value(1, 3, 9));
  EXPECT_EQ(later.wait_for(50ms), std::future_status::timeout);
  for (auto& byte : shown_[1]) byte = std::byte{0x55};  // the next version
  slices_[1]->publish(SliceId(3), 8);
  EXPECT_EQ(result(std::move(later)), ok());
  EXPECT_EQ(second[9], std::byte{0x55});
  EXPECT_THAT(std::string(result(fetch(0, 1, 3, first, 7)).message()), testing::HasSubstr("slice 3 of rank 1 is at version 8, rank 0 asked for 7"));
}

TEST_F(SlicesTest, EndsEveryFetchWhenTheOwnerGoes) {
  show({1}, 1000);
  start();
  transports_[2]->stop();
  std::vector<std::byte> into(1000);
  EXPECT_EQ(result(fetch(0, 2, 1, into)).code(), absl::StatusCode::kUnavailable);
  auto waits = fetch(0, 1, 1, into, 2);  // for a version that never comes
  EXPECT_EQ(waits.wait_for(50ms), std::future_status::timeout);
  EXPECT_EQ(result(fetch(0, 1, 1, into)), ok());
  transports_[1]->stop();
  EXPECT_EQ(result(std::move(waits)).code(), absl::StatusCode::kUnavailable);
}

TEST_F(SlicesTest, ServesTheOthersWhenOneHasGone) {
  show({1}, 1000);
  start();
  transports_[2]->stop();
  std::vector<std::byte> into(1000);
  EXPECT_EQ(result(fetch(0, 1, 1, into)), ok());
}

TEST_F(SlicesTest, GarbageChangesNothing) {
  show({1}, 1000);
  start();
  std::vector<std::byte> garbage(kSliceHeaderBytes, std::byte{0xff}), into(1000);
  transports_[1]->send({.to = Rank(0), .channel = Channel::kSlices, .header = std::span(garbage).first(5)});
  transports_[1]->send({.to = Rank(0), .channel = Channel::kSlices, .header = garbage});
  // answers that nobody asked for
  garbage = encode({.kind = SliceHeader::Kind::kAnswer, .ticket = 1});
  transports_[1]->send({.to = Rank(0), .channel = Channel::kSlices, .lane = Lane::kBulk, .header = garbage, .bulk = std::span(into).first(7)});
  for (const auto kind : {SliceHeader::Kind::kThere, SliceHeader::Kind::kGone, SliceHeader::Kind::kWithdrawn, SliceHeader::Kind::kAskCopy, SliceHeader::Kind::kWhere}) {
    transports_[1]->send({.to = Rank(0), .channel = Channel::kSlices, .header = encode({.kind = kind, .id = SliceId(-7), .owner = Rank(-9), .rank = Rank(40), .ticket = 1})});
  }
  EXPECT_EQ(result(fetch(0, 1, 1, into)), ok());
  EXPECT_EQ(into[7], value(1, 1, 7));
}

// Two owners on a machine of their own, three mates on another.
class SlicesByNode : public SlicesTest {
 protected:
  SlicesByNode() : SlicesTest(5, {{0, 1}, {2, 3, 4}}) {}
  std::int64_t sent_by_owners() const { return transports_[0]->counters().bulk_bytes_sent + transports_[1]->counters().bulk_bytes_sent; }
  void is_of(const std::vector<std::byte>& bytes, int owner, int id) {
    for (std::size_t i = 0; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], value(owner, id, i)) << owner << " " << id << " " << i;
  }
};

TEST_F(SlicesByNode, BringASliceToAMachineOnce) {
  constexpr std::size_t kBytes = 200'000;
  const std::vector<int> ids{0, 1, 2, 3, 4, 5};
  show(ids, kBytes, -1);
  start();
  std::deque<std::vector<std::byte>> got;
  std::vector<std::future<Status>> ends;
  // twice, since a mate may want a slice in two places
  for (int time = 0; time < 2; ++time) {
    for (int by = 2; by < 5; ++by) {
      for (const int id : ids) {
        for (const int owner : {0, 1}) ends.push_back(fetch(by, owner, id, got.emplace_back(kBytes)));
      }
    }
  }
  for (const int owner : {0, 1}) {
    for (const int id : ids) slices_[static_cast<std::size_t>(owner)]->publish(SliceId(id), 1);
  }
  for (auto& end : ends) EXPECT_EQ(result(std::move(end)), ok());
  auto next = got.begin();
  for (int fetcher = 0; fetcher < 6; ++fetcher) {
    for (const int id : ids) {
      for (const int owner : {0, 1}) is_of(*next++, owner, id);
    }
  }
  EXPECT_EQ(sent_by_owners(), static_cast<std::int64_t>(kBytes) * 12);
  // a mate's own slices need nobody between, and who has no slice from elsewhere in that version is no source
  for (auto& bytes : shown_[0]) bytes = std::byte{0x55};
  slices_[0]->publish(SliceId(0), 2);
  std::vector<std::byte> again(kBytes);
  EXPECT_EQ(result(fetch(4, 0, 0, again, 2)), ok());
  EXPECT_EQ(again[77], std::byte{0x55});
}

TEST_F(SlicesByNode, APlaceThatWasUsedAgainIsNoSource) {
  show({0, 1}, 5000);
  show({6}, 10);
  start();
  std::array<std::vector<std::byte>, kRanks + 2> places;
  for (auto& place : places) place.resize(5000);
  for (int round = 0; round < 3; ++round) {  // whoever the register names first
    for (const int by : {2, 3, 4}) {
      auto& place = places[static_cast<std::size_t>(by)];
      EXPECT_EQ(result(fetch(by, 0, 0, place)), ok());
      is_of(place, 0, 0);
      EXPECT_EQ(result(fetch(by, 1, 1, place)), ok());
      is_of(place, 1, 1);
    }
  }
  // one byte of it is enough, at either end
  for (const std::size_t at : {std::size_t{0}, std::size_t{4990}}) {
    EXPECT_EQ(result(fetch(2, 0, 0, places[2])), ok());
    EXPECT_EQ(result(fetch(2, 1, 6, std::span(places[2]).subspan(at, 10))), ok());
    EXPECT_EQ(result(fetch(3, 0, 0, places[3])), ok());
    is_of(places[3], 0, 0);
    EXPECT_EQ(result(fetch(3, 1, 1, places[3])), ok());
  }
}

TEST_F(SlicesByNode, AMistakeIsTheAskersAlone) {
  show({2}, 1000, -1);
  start();
  std::vector<std::byte> wrong(999), right(1000), also_right(1000);
  auto first = fetch(3, 0, 2, wrong), second = fetch(2, 0, 2, right), third = fetch(4, 0, 2, also_right);
  slices_[0]->publish(SliceId(2), 1);
  EXPECT_THAT(std::string(result(std::move(first)).message()), testing::HasSubstr("slice 2 of rank 0 has 1000 bytes, rank 3 asked for 999"));
  EXPECT_EQ(result(std::move(second)), ok());
  EXPECT_EQ(result(std::move(third)), ok());
  is_of(right, 0, 2);
  is_of(also_right, 0, 2);
  slices_[0]->publish(SliceId(2), 5);
  EXPECT_THAT(std::string(result(fetch(2, 0, 2, right, 4)).message()), testing::HasSubstr("is at version 5, rank 2 asked for 4"));
}

TEST_F(SlicesByNode, EndWithTheCauseWhenTheOwnerOrAMateGoes) {
  show({0, 1, 2, 3, 4, 5}, 1000);
  start();
  std::deque<std::vector<std::byte>> got;
  std::vector<std::future<Status>> of_owner;
  for (const int id : {0, 1, 2, 3, 4, 5}) {
    for (const int by : {2, 3, 4}) of_owner.push_back(fetch(by, 1, id, got.emplace_back(1000), 9));
  }
  hub_.cut(Rank(1), absl::UnavailableError("rank 1 is down: test"));
  for (auto& end : of_owner) EXPECT_THAT(std::string(result(std::move(end)).message()), testing::HasSubstr("rank 1 is down"));
  // one mate goes: who waits for his copy or for what he has written down hears of it, the others get theirs
  std::vector<std::future<Status>> ends;
  for (const int id : {0, 1, 2, 3, 4, 5}) {
    for (const int by : {4, 3, 2}) {
      auto end = fetch(by, 0, id, got.emplace_back(1000), 9);
      if (by != 4) ends.push_back(std::move(end));  // nobody tells the dead one
    }
  }
  hub_.cut(Rank(4), absl::UnavailableError("rank 4 is down: test"));
  for (const int id : {0, 1, 2, 3, 4, 5}) slices_[0]->publish(SliceId(id), 9);
  for (auto& end : ends) {
    const Status status = result(std::move(end));
    if (!status.ok()) {
      EXPECT_THAT(std::string(status.message()), testing::HasSubstr("rank 4 is down"));
    }
  }
  transports_[4]->stop();  // its places are the test's
}

// Rank 2 of its machine, played by the test, takes what it has asked for when it likes.
class SlicesOfASlowMate : public SlicesTest {
 protected:
  SlicesOfASlowMate() : SlicesTest(3, {{0}, {1, 2}}, 2) {}
};

TEST_F(SlicesOfASlowMate, APlaceStaysWhileAMateTakesIt) {
  constexpr std::size_t kBytes = 300'000;
  show({2, 4}, kBytes);  // rank 1 writes down who has them
  std::promise<Arrival> arrived;
  transports_[2]->handle(Channel::kSlices, [&](Arrival arrival) { arrived.set_value(std::move(arrival)); });
  start();
  std::vector<std::byte> place(kBytes), taken(kBytes);
  ASSERT_EQ(result(fetch(1, 0, 2, place)), ok());
  transports_[2]->send({.to = Rank(1), .channel = Channel::kSlices,
                        .header = encode({.kind = SliceHeader::Kind::kAskCopy, .id = SliceId(2), .owner = Rank(0), .ticket = 50, .its_ticket = 1,
                                          .version = 1, .bytes = static_cast<std::int64_t>(kBytes)})});
  auto arrival = arrived.get_future();
  ASSERT_EQ(arrival.wait_for(30s), std::future_status::ready);
  auto next = fetch(1, 0, 4, place);
  EXPECT_EQ(next.wait_for(50ms), std::future_status::timeout) << "it is being taken";
  std::promise<Status> fetched;
  transports_[2]->post([&, arrival = arrival.get()]() mutable {
    arrival.fetch(taken.data(), [&](Status status) { fetched.set_value(std::move(status)); });
  });
  EXPECT_EQ(result(fetched.get_future()), ok());
  EXPECT_EQ(result(std::move(next)), ok());
  for (std::size_t i = 0; i < kBytes; ++i) {
    ASSERT_EQ(taken[i], value(0, 2, i));
    ASSERT_EQ(place[i], value(0, 4, i));
  }
}

// Or it refuses, or dies: the place is the next one's too.
TEST_F(SlicesOfASlowMate, APlaceIsFreeWhenAMateGoes) {
  constexpr std::size_t kBytes = 300'000;
  show({2, 4}, kBytes);
  std::promise<void> there;
  std::optional<Arrival> kept;
  transports_[2]->handle(Channel::kSlices, [&](Arrival arrival) {
    kept.emplace(std::move(arrival));
    there.set_value();
  });
  start();
  std::vector<std::byte> place(kBytes);
  ASSERT_EQ(result(fetch(1, 0, 2, place)), ok());
  transports_[2]->send({.to = Rank(1), .channel = Channel::kSlices,
                        .header = encode({.kind = SliceHeader::Kind::kAskCopy, .id = SliceId(2), .owner = Rank(0), .ticket = 50, .its_ticket = 1,
                                          .version = 1, .bytes = static_cast<std::int64_t>(kBytes)})});
  ASSERT_EQ(there.get_future().wait_for(30s), std::future_status::ready);
  auto next = fetch(1, 0, 4, place);
  hub_.cut(Rank(2), absl::UnavailableError("rank 2 is down: test"));
  EXPECT_EQ(result(std::move(next)), ok());
  EXPECT_EQ(place[5], value(0, 4, 5));
}

TEST(SliceRegister, NamesOnlyWhoCameBefore) {
  SliceRegister its;
  const SliceKey slice{Rank(9), SliceId(3)};
  using Fetch = SliceRegister::Fetch;
  const auto fetch = [](int rank, std::int64_t ticket = 1) { return Fetch{Rank(rank), ticket}; };
  EXPECT_EQ(its.source(slice, 5, fetch(0)), std::nullopt);
  EXPECT_EQ(its.source(slice, 5, fetch(1)), fetch(0));
  EXPECT_EQ(its.source(slice, 5, fetch(2)), fetch(0));
  EXPECT_EQ(its.source(slice, 5, fetch(3)), fetch(1));  // as down a tree
  EXPECT_EQ(its.source(slice, 5, fetch(0, 2)), fetch(1));  // in another place
  its.withdraw(slice, fetch(1));
  EXPECT_EQ(its.source(slice, 5, fetch(3)), fetch(0));   // asked again: still before fetch(0, 2)
  its.withdraw(slice, fetch(0));
  EXPECT_EQ(its.source(slice, 5, fetch(2)), std::nullopt);  // fetch(0, 2) may wait for it
  EXPECT_EQ(its.source(slice, 5, fetch(0, 2)), fetch(2));
  EXPECT_EQ(its.source(slice, 4, fetch(7)), std::nullopt);  // an older version
  EXPECT_EQ(its.source(slice, 6, fetch(8)), std::nullopt);  // a newer one has nobody yet
  EXPECT_EQ(its.source({Rank(9), SliceId(4)}, 6, fetch(1)), std::nullopt);
  its.peer_down(Rank(8));
  EXPECT_EQ(its.source(slice, 6, fetch(1)), std::nullopt);
}

// Random bytes, and frames of WIRE.md cut short or with a byte changed: nobody crashes, and what is asked for afterwards comes.
TEST_F(SlicesTest, WhateverIsSentLaterFetchesComeRight) {
  show({1}, 1000);
  start();
  std::mt19937 random(13);
  const std::vector<std::byte> bulk(2000);
  for (int i = 0; i < 5'000; ++i) {
    const auto number = [&](std::int64_t below) { return static_cast<std::int64_t>(random()) % below; };
    const auto rank = [&] { return Rank(static_cast<std::int32_t>(number(4)) - 1); };
    auto header = encode({.kind = static_cast<SliceHeader::Kind>(number(9)), .id = SliceId(1), .owner = rank(), .rank = rank(), .ticket = number(4),
                          .its_ticket = number(4), .version = number(3), .bytes = 1000}, std::string(random() % 20, 'x'));
    switch (random() % 3) {
      case 0: header.resize(random() % header.size()); break;
      case 1: header[random() % header.size()] = static_cast<std::byte>(random()); break;
      default:
        for (auto& byte : header) byte = static_cast<std::byte>(random());
    }
    transports_[1]->send({.to = Rank(0), .channel = Channel::kSlices, .header = header, .bulk = std::span(bulk).first(random() % 2 * 1000)});
  }
  // By others, as answers to what was forged are answers to rank 1; from the one who got all that and to it.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (transports_[0]->counters().frames_received < 5'000 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  std::vector<std::byte> into(1000);
  EXPECT_EQ(result(fetch(2, 0, 1, into)), ok());
  EXPECT_EQ(into[7], value(0, 1, 7));
  EXPECT_EQ(result(fetch(0, 2, 1, into)), ok());
  for (std::size_t i = 0; i < into.size(); ++i) ASSERT_EQ(into[i], value(2, 1, i));
}

}  // namespace
}  // namespace troupe::comm
