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
  void show(std::vector<int> ids, std::size_t count) {
    for (int rank = 0; rank < kRanks; ++rank) {
      for (const int id : ids) {
        auto& bytes = shown_.emplace_back();
        for (std::size_t i = 0; i < count; ++i) bytes.push_back(value(rank, id, i));
        slices_[static_cast<std::size_t>(rank)]->show(SliceId(id), bytes);
      }
    }
  }
  static std::byte value(int rank, int id, std::size_t at) { return static_cast<std::byte>(static_cast<std::size_t>(rank * 31 + id * 7) + at * 13); }
  std::future<Status> fetch(int by, int owner, int id, std::span<std::byte> into) {
    auto promise = std::make_shared<std::promise<Status>>();
    slices_[static_cast<std::size_t>(by)]->fetch(Rank(owner), SliceId(id), into, [promise](Status status) { promise->set_value(std::move(status)); });
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

TEST_F(SlicesTest, EndsEveryFetchWhenTheOwnerGoes) {
  show({1}, 1000);
  start();
  transports_[2]->stop();
  std::vector<std::byte> into(1000);
  EXPECT_EQ(result(fetch(0, 2, 1, into)).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(result(fetch(0, 1, 1, into)), ok());
}

TEST_F(SlicesTest, GarbageChangesNothing) {
  show({1}, 1000);
  start();
  std::vector<std::byte> garbage(24, std::byte{0xff}), into(1000);
  transports_[1]->send({.to = Rank(0), .channel = Channel::kSlices, .header = std::span(garbage).first(5)});
  transports_[1]->send({.to = Rank(0), .channel = Channel::kSlices, .header = garbage});
  // answers that nobody asked for
  garbage.assign(24, std::byte{0});
  garbage[0] = std::byte{1};
  garbage[8] = std::byte{1};
  transports_[1]->send({.to = Rank(0), .channel = Channel::kSlices, .lane = Lane::kBulk, .header = garbage, .bulk = std::span(into).first(7)});
  EXPECT_EQ(result(fetch(0, 1, 1, into)), ok());
  EXPECT_EQ(into[7], value(1, 1, 7));
}

}  // namespace
}  // namespace troupe::comm
