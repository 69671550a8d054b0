// Slices of memory on the transport between threads.
#include "comm/slices/slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>

#include "comm/local/local_transport.h"

namespace troupe::comm {
namespace {

using namespace std::chrono_literals;

class SlicesTest : public testing::Test {
 protected:
  static constexpr int kRanks = 3;
  SlicesTest() {
    for (int rank = 0; rank < kRanks; ++rank) {
      transports_.push_back(hub_.transport(Rank(rank)));
      slices_.push_back(std::make_unique<Slices>(*transports_.back()));
      transports_.back()->on_peer_down([slices = slices_.back().get()](Rank peer, const Status& cause) { slices->peer_down(peer, cause); });
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
    for (int rank = 0; rank < kRanks; ++rank) {
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

  LocalHub hub_{kRanks};
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
  std::vector<std::byte> garbage(32, std::byte{0xff}), into(1000);
  transports_[1]->send({.to = Rank(0), .channel = Channel::kSlices, .header = std::span(garbage).first(5)});
  transports_[1]->send({.to = Rank(0), .channel = Channel::kSlices, .header = garbage});
  // answers that nobody asked for
  garbage.assign(32, std::byte{0});
  garbage[0] = std::byte{1};
  garbage[8] = std::byte{1};
  transports_[1]->send({.to = Rank(0), .channel = Channel::kSlices, .lane = Lane::kBulk, .header = garbage, .bulk = std::span(into).first(7)});
  EXPECT_EQ(result(fetch(0, 1, 1, into)), ok());
  EXPECT_EQ(into[7], value(1, 1, 7));
}

}  // namespace
}  // namespace troupe::comm
