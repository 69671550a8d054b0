// What a rank does with each frame that another may send: the others are played by the test.
#include <atomic>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <random>

#include "comm/inspect/relay.h"
#include "tests/unit/comm/inspect/inspected_job.h"

namespace troupe::comm {
namespace {

using Kind = InspectHeader::Kind;

// Ranks 1 and 2 are played.
class PlayedRanks : public testing::Test {
 protected:
  PlayedRanks() : job_(3, [this](int rank, std::string_view question) {
    if (question == "hang") job_.gate.pass();
    return InspectedJob::echo(rank, question);
  }, 1) {
    for (const int rank : {1, 2}) {
      job_.transport(rank).handle(Channel::kInspect, [this, rank](Arrival arrival) {
        const auto header = decode_inspect(arrival.header());
        ASSERT_TRUE(header);
        if (header->kind == Kind::kQuestion) {
          std::lock_guard lock(mutex_);
          asked_[rank] = *header;
        } else {
          ++answered_;
        }
      });
    }
    job_.start();
  }
  // The question that a played rank has got.
  InspectHeader question_to(int rank) {
    EXPECT_TRUE(holds_soon([&] {
      std::lock_guard lock(mutex_);
      return asked_.contains(rank);
    }));
    std::lock_guard lock(mutex_);
    return asked_[rank];
  }
  std::vector<std::byte> reply_header(int rank) { return encode(InspectHeader{.kind = Kind::kReplies, .root = Rank(0), .ticket = question_to(rank).ticket}); }
  void send(int from, const std::vector<std::byte>& header, const std::vector<std::byte>& bulk = {}) {
    const auto kept = std::make_shared<std::vector<std::byte>>(bulk);
    job_.transport(from).send({.to = Rank(0), .channel = Channel::kInspect, .header = header, .bulk = *kept, .sent = [kept](const Status&) {}});
  }
  static std::vector<std::byte> packed(int rank, const Status& status, const std::string& text) {
    std::vector<std::byte> bytes;
    pack({.rank = Rank(rank), .status = status, .text = text}, bytes);
    return bytes;
  }
  bool refused(std::int64_t count) {
    return holds_soon([&] { return job_.tree(0).refused() >= count; }) && job_.tree(0).refused() == count;
  }

  std::mutex mutex_;
  std::map<int, InspectHeader> asked_;
  std::atomic<int> answered_{0};
  InspectedJob job_;
};

TEST_F(PlayedRanks, OnlyWhoWasAskedIsHeardOfHimself) {
  auto asked = std::async(std::launch::async, [&] { return job_.ask(0, "state"); });
  const auto header = reply_header(1);
  send(2, header, packed(1, ok(), "forged"));
  send(2, header, packed(0, ok(), "forged"));
  send(2, header, packed(-1, ok(), "forged"));
  send(2, header, packed(3, ok(), "forged"));
  auto other = *decode_inspect(header);
  ++other.ticket;
  send(1, encode(other), packed(1, ok(), "of no question"));
  send(1, header);  // says nothing
  send(1, header, packed(1, ok(), std::string(kAnswerBytesMost + 1, 'x')));
  EXPECT_TRUE(refused(7)) << job_.tree(0).refused();
  EXPECT_EQ(asked.wait_for(50ms), std::future_status::timeout);
  send(1, header, packed(1, ok(), "one"));
  send(2, header, packed(2, ok(), "two"));
  const auto replies = asked.get();
  EXPECT_EQ(replies[1].text, "one");
  EXPECT_EQ(replies[2].text, "two");
  // What comes after the end is only late.
  send(1, header, packed(1, ok(), "one more"));
  expect_echoes(job_.ask(0, "again", 1s), 3, "again", {1, 2});
  EXPECT_TRUE(refused(7));
}

TEST_F(PlayedRanks, AnAnswerCountsAfterAReasonAndElseTheFirst) {
  auto asked = std::async(std::launch::async, [&] { return job_.ask(0, "state"); });
  std::vector<std::byte> bulk;
  for (const auto& [status, text] : std::vector<std::pair<Status, std::string>>{{absl::DeadlineExceededError("late"), ""},
                                                                               {absl::DeadlineExceededError("later"), ""},
                                                                               {ok(), "first"}, {ok(), "second"},
                                                                               {absl::InternalError("never"), ""}}) {
    pack({.rank = Rank(1), .status = status, .text = text}, bulk);
  }
  send(1, reply_header(1), bulk);
  send(2, reply_header(2), packed(2, absl::AbortedError("it does not want"), ""));
  const auto replies = asked.get();
  EXPECT_EQ(replies[1].text, "first");
  EXPECT_EQ(replies[2].status, absl::AbortedError("it does not want"));
}

TEST_F(PlayedRanks, WhoCannotBeReadIsReported) {
  auto asked = std::async(std::launch::async, [&] { return job_.ask(0, "state"); });
  const auto header = reply_header(1);
  auto bulk = packed(1, ok(), "torn");
  bulk.pop_back();
  send(1, header, bulk);
  send(2, header, packed(2, ok(), "two"));
  const auto replies = asked.get();
  EXPECT_EQ(replies[1].status, absl::InternalError("it sent replies that cannot be read"));
  EXPECT_EQ(replies[2].text, "two");
  EXPECT_TRUE(refused(1));
}

TEST_F(PlayedRanks, AQuestionThatIsNotItsSendersToAskIsRefused) {
  const InspectHeader good{.root = Rank(1), .ticket = 5, .patience_ns = 60'000'000'000};
  const auto with = [&](auto change) {
    InspectHeader header = good;
    change(header);
    return encode(header, "who?");
  };
  send(1, with([](InspectHeader& h) { h.root = Rank(0); }));    // this rank's own
  send(1, with([](InspectHeader& h) { h.root = Rank(2); }));    // 1 is not above 0 in that tree
  send(1, with([](InspectHeader& h) { h.root = Rank(3); }));
  send(1, with([](InspectHeader& h) { h.root = Rank(-1); }));
  send(1, with([](InspectHeader& h) { h.patience_ns = 0; }));
  send(1, with([](InspectHeader& h) { h.patience_ns = InspectRelay::kPatienceNsMost + 1; }));
  send(1, encode(good, std::string(kQuestionBytesMost + 1, 'q')));
  send(1, encode(good, "who?"), packed(1, ok(), "a bulk"));
  send(1, {std::byte{0}});
  EXPECT_TRUE(refused(9)) << job_.tree(0).refused();
  EXPECT_EQ(answered_, 0);
  send(1, encode(good, "who?"));
  EXPECT_TRUE(holds_soon([&] { return answered_ == 1; }));
}

TEST_F(PlayedRanks, OnePeerHasSoManyQuestionsOpenAndNoMore) {
  constexpr int kMore = 40;
  for (int ticket = 0; ticket < InspectRelay::kOpenOfOneMost + kMore; ++ticket) {
    send(1, encode(InspectHeader{.root = Rank(1), .ticket = ticket, .patience_ns = 600'000'000'000}, "hang"));
  }
  EXPECT_TRUE(refused(kMore)) << job_.tree(0).refused();
  // Not another's fault.
  send(2, encode(InspectHeader{.root = Rank(2), .ticket = 1, .patience_ns = 600'000'000'000}, "who?"));
  job_.gate.open();
  EXPECT_TRUE(holds_soon([&] { return answered_ == InspectRelay::kOpenOfOneMost + 1; })) << answered_;
  // There is room again.
  send(1, encode(InspectHeader{.root = Rank(1), .ticket = 1, .patience_ns = 600'000'000'000}, "who?"));
  EXPECT_TRUE(holds_soon([&] { return answered_ == InspectRelay::kOpenOfOneMost + 2; })) << answered_;
  EXPECT_TRUE(refused(kMore));
}

// Random bytes, and frames of WIRE.md cut short or with a byte changed: nobody crashes, and what is asked afterwards is answered.
TEST(InspectFrames, WhateverIsSentLaterQuestionsAreAnswered) {
  constexpr int kWorld = 12, kFrames = 5'000;
  std::deque<std::vector<std::byte>> bulks;
  InspectedJob job(kWorld);
  job.start();
  std::mt19937 random(17);
  const auto number = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  std::atomic<bool> over{false};
  std::thread asker([&] {
    while (!over) EXPECT_EQ(job.ask(0, "meanwhile", 200ms).size(), static_cast<std::size_t>(kWorld));
  });
  for (int i = 0; i < kFrames; ++i) {
    auto header = encode(InspectHeader{.kind = static_cast<Kind>(number(3)), .root = Rank(number(kWorld + 2) - 1), .ticket = number(200),
                                       .patience_ns = number(1'000'000)}, std::string(static_cast<std::size_t>(number(20)), 'q'));
    if (number(2) == 0) header.resize(kInspectHeaderBytes);
    auto& bulk = bulks.emplace_back();
    for (int replies = number(4); replies > 0; --replies) {
      pack({.rank = Rank(number(kWorld + 2) - 1), .status = number(2) == 0 ? ok() : absl::AbortedError("no"), .text = "meant to be"}, bulk);
    }
    auto& changed = number(2) == 0 || bulk.empty() ? header : bulk;
    const auto at = static_cast<std::size_t>(number(static_cast<int>(changed.size())));
    switch (number(4)) {
      case 0: changed.resize(at); break;
      case 1: changed[at] = static_cast<std::byte>(number(256)); break;
      case 2:
        for (auto& byte : changed) byte = static_cast<std::byte>(number(256));
        break;
      default: break;  // well formed, but not asked for
    }
    job.transport(1 + number(kWorld - 1)).send({.to = Rank(0), .channel = Channel::kInspect, .header = header, .bulk = bulk});
  }
  EXPECT_TRUE(holds_soon([&] { return job.transport(0).counters().frames_received >= kFrames; }));
  over = true;
  asker.join();
  EXPECT_GT(job.tree(0).refused(), kFrames / 4);
  for (int by = 0; by < kWorld; ++by) expect_echoes(job.ask(by, "after all"), kWorld, "after all");
}

}  // namespace
}  // namespace troupe::comm
