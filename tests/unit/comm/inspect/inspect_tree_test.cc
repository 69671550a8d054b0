// Every rank is asked and reported, on the transport between threads.
#include <atomic>
#include <future>
#include <stdexcept>

#include "tests/unit/comm/inspect/inspected_job.h"

namespace troupe::comm {
namespace {

TEST(InspectTreeTest, EveryRankIsThereOnce) {
  for (const int world : {1, 2, 9, 64}) {
    SCOPED_TRACE(world);
    InspectedJob job(world);
    job.start();
    for (const int by : {0, world / 2, world - 1}) expect_echoes(job.ask(by, "who?"), world, "who?");
    expect_echoes(job.ask(0, ""), world, "");
  }
  InspectTree alone(nullptr, [](std::string_view question) { return InspectedJob::echo(0, question); });
  expect_echoes(alone.ask("who?", 60s), 1, "who?");
  EXPECT_EQ(alone.refused(), 0);
}

// The actors may do what they like; the one who answers may hang as well.
TEST(InspectTreeTest, ARankWhoseAnswerHangsIsLateAndPassesOnTheOthers) {
  constexpr int kWorld = 64;
  std::atomic<int> begun{0};
  InspectedJob* of = nullptr;
  InspectedJob job(kWorld, [&](int rank, std::string_view question) {
    if (rank == 1 && ++begun == 1) of->gate.pass();
    return InspectedJob::echo(rank, question);
  });
  of = &job;
  job.start();
  const auto replies = job.ask(0, "state", 4s);
  expect_echoes(replies, kWorld, "state", {1});
  EXPECT_EQ(replies[1].status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(message(replies[1]), testing::HasSubstr("late: its answer was not ready within 2.16 s"));
  // Its own question too, and of those that came meanwhile nothing is left to do.
  const auto own = job.ask(1, "state", 4s);
  expect_echoes(own, kWorld, "state", {1});
  EXPECT_EQ(message(own[1]), "no answer within 4 s");
  job.gate.open();
  expect_echoes(job.ask(0, "again"), kWorld, "again");
  EXPECT_EQ(begun, 2);
}

TEST(InspectTreeTest, AsksAroundASilentRank) {
  constexpr int kWorld = 64;
  InspectedJob job(kWorld);
  job.start();
  job.freeze(1);  // above 9 to 16
  const auto replies = job.ask(0, "state", 4s);
  expect_echoes(replies, kWorld, "state", {1});
  EXPECT_EQ(message(replies[1]), "no answer within 2.16 s");
  job.gate.open();
  expect_echoes(job.ask(0, "again"), kWorld, "again");
}

TEST(InspectTreeTest, NamesAPeerThatIsDownAtOnce) {
  constexpr int kWorld = 64;
  InspectedJob job(kWorld);
  job.start();
  const auto start = std::chrono::steady_clock::now();
  job.cut(1);
  auto replies = job.ask(0, "state", 600s);
  expect_echoes(replies, kWorld, "state", {1});
  EXPECT_EQ(message(replies[1]), "rank 1 is down: test");
  // while it is asked
  job.freeze(2);
  auto asked = std::async(std::launch::async, [&] { return job.ask(0, "again", 600s); });
  EXPECT_EQ(asked.wait_for(200ms), std::future_status::timeout);
  job.cut(2);
  replies = asked.get();
  expect_echoes(replies, kWorld, "again", {1, 2});
  EXPECT_EQ(message(replies[2]), "rank 2 is down: test");
  EXPECT_LT(std::chrono::steady_clock::now() - start, 300s);
}

TEST(InspectTreeTest, TellsOfItselfWhenItsTransportHasStopped) {
  InspectedJob job(9);
  job.start();
  job.transport(3).stop();
  const auto start = std::chrono::steady_clock::now();
  const auto by_it = job.ask(3, "state", 600s);
  expect_echoes(by_it, 9, "state", {0, 1, 2, 4, 5, 6, 7, 8});
  EXPECT_THAT(message(by_it[4]), testing::HasSubstr("has stopped"));
  const auto by_others = job.ask(0, "state", 600s);
  expect_echoes(by_others, 9, "state", {3});
  EXPECT_LT(std::chrono::steady_clock::now() - start, 300s);
}

TEST(InspectTreeTest, EveryAskEndsWithThePatience) {
  InspectedJob job(9);
  expect_echoes(job.ask(0, "early", 100ms), 9, "early", {1, 2, 3, 4, 5, 6, 7, 8});  // before its transport starts
  job.start();
  job.freeze(4);
  EXPECT_THAT(message(job.ask(0, "state", 300ms)[4]), testing::StartsWith("no answer within 0."));  // by whoever looks at the clock first
}

TEST(InspectTreeTest, ItsTransportMayStopWhileItAsks) {
  InspectedJob job(9);
  job.start();
  job.freeze(4);
  auto asked = std::async(std::launch::async, [&] { return job.ask(0, "state", 600s); });
  EXPECT_EQ(asked.wait_for(200ms), std::future_status::timeout);
  job.transport(0).stop();
  ASSERT_EQ(asked.wait_for(60s), std::future_status::ready);
  const auto replies = asked.get();
  ASSERT_EQ(replies.size(), 9u);
  EXPECT_EQ(replies[0].status, ok());
  EXPECT_THAT(message(replies[4]), testing::HasSubstr("has stopped"));
}

// Not by way of a send that fails: what is sent to a rank on its way out may be said to have left, and end nowhere.
TEST(InspectTreeTest, WhoWasDownBeforeIsNotWaitedFor) {
  constexpr int kWorld = 64;
  InspectedJob job(kWorld);
  job.start();
  job.freeze(1);
  job.transport(0).post([&] { job.tree(0).peer_down(Rank(1), absl::UnavailableError("rank 1 is gone")); });
  const auto start = std::chrono::steady_clock::now();
  const auto replies = job.ask(0, "state", 600s);
  expect_echoes(replies, kWorld, "state", {1});
  EXPECT_EQ(message(replies[1]), "rank 1 is gone");
  EXPECT_LT(std::chrono::steady_clock::now() - start, 60s);
}

TEST(InspectTreeTest, RanksMayEndWhileTheyAreAsked) {
  constexpr int kWorld = 64;
  InspectedJob job(kWorld);
  job.start();
  std::atomic<bool> over{false};
  std::vector<std::thread> askers;
  for (const int by : {0, 20}) {
    askers.emplace_back([&, by] {
      while (!over) {
        const auto replies = job.ask(by, "state");
        EXPECT_EQ(replies.size(), static_cast<std::size_t>(kWorld));
        for (const InspectReply& reply : replies) {
          const int rank = reply.rank.value;
          EXPECT_TRUE(reply.status.ok() || rank == 1 || rank == 2 || rank == 9 || rank == 63) << "rank " << rank << ": " << reply.status;
        }
      }
    });
  }
  for (const int rank : {9, 1, 63}) {
    job.transport(rank).stop();
    expect_echoes(job.ask(0, "state"), kWorld, "state", rank == 9 ? std::vector{9} : rank == 1 ? std::vector{1, 9} : std::vector{1, 9, 63});
  }
  job.cut(2);
  expect_echoes(job.ask(20, "state"), kWorld, "state", {1, 2, 9, 63});
  over = true;
  for (auto& asker : askers) asker.join();
}

TEST(InspectTreeTest, CarriesLargeAnswers) {
  constexpr int kWorld = 20;  // rank 1 has its own and eight more to pass on: more than goes into a frame
  constexpr std::size_t kBytes = 8 << 20;
  InspectedJob job(kWorld, [](int rank, std::string_view) { return std::string(kBytes + static_cast<std::size_t>(rank), static_cast<char>('a' + rank)); });
  job.start();
  const auto replies = job.ask(0, "all");
  ASSERT_EQ(replies.size(), static_cast<std::size_t>(kWorld));
  for (const InspectReply& reply : replies) {
    ASSERT_EQ(reply.status, ok());
    EXPECT_EQ(reply.text.size(), kBytes + static_cast<std::size_t>(reply.rank.value));
    EXPECT_EQ(reply.text.find_first_not_of(static_cast<char>('a' + reply.rank.value)), std::string::npos);
  }
}

TEST(InspectTreeTest, SaysWhatIsTooLarge) {
  InspectedJob job(3, [](int rank, std::string_view question) {
    return question == "all" ? std::string(kAnswerBytesMost + static_cast<std::size_t>(rank / 2), 'x') : InspectedJob::echo(rank, question);
  });
  job.start();
  const auto replies = job.ask(0, "all");
  EXPECT_EQ(replies[1].text.size(), kAnswerBytesMost);
  EXPECT_EQ(message(replies[2]), "its answer has 67108865 bytes, and at most 67108864 can travel");
  const std::string longest(kQuestionBytesMost, 'q');
  expect_echoes(job.ask(0, longest), 3, longest);
  const auto refused = job.ask(0, longest + "q");
  expect_echoes(refused, 3, "", {0, 1, 2});
  EXPECT_EQ(message(refused[1]), "a question of 3073 bytes: at most 3072");
}

TEST(InspectTreeTest, AFunctionThatThrowsEndsNothing) {
  InspectedJob job(2, [](int rank, std::string_view question) -> std::string {
    if (question == "broken") throw std::runtime_error("no such table");
    return InspectedJob::echo(rank, question);
  });
  job.start();
  const auto replies = job.ask(0, "broken");
  for (const InspectReply& reply : replies) EXPECT_EQ(reply.status, absl::InternalError("it could not answer: no such table"));
  expect_echoes(job.ask(0, "whole"), 2, "whole");
}

TEST(InspectTreeTest, ManyAskAtOnce) {
  constexpr int kWorld = 12, kThreads = 3, kTimes = 20;
  InspectedJob job(kWorld);
  job.start();
  std::vector<std::thread> askers;
  for (int by = 0; by < kWorld; ++by) {
    for (int thread = 0; thread < kThreads; ++thread) {
      askers.emplace_back([&job, by, thread] {
        for (int time = 0; time < kTimes; ++time) {
          const std::string question = absl::StrCat(by, "/", thread, "/", time);
          expect_echoes(job.ask(by, question), kWorld, question);
        }
      });
    }
  }
  for (auto& asker : askers) asker.join();
}

TEST(InspectTreeTest, ItsEndWaitsForTheRunningAnswerOnly) {
  std::atomic<int> begun{0};
  InspectedJob* of = nullptr;
  InspectedJob job(3, [&](int rank, std::string_view question) {
    if (rank == 1) {
      ++begun;
      of->gate.pass();
    }
    return InspectedJob::echo(rank, question);
  });
  of = &job;
  job.start();
  auto first = std::async(std::launch::async, [&] { return job.ask(0, "first", 3s); });
  auto second = std::async(std::launch::async, [&] { return job.ask(2, "second", 3s); });
  ASSERT_TRUE(job.gate.wait_for_somebody());
  auto ended = std::async(std::launch::async, [&] { job.end_tree(1); });
  EXPECT_EQ(ended.wait_for(100ms), std::future_status::timeout);
  job.gate.open();
  EXPECT_EQ(ended.wait_for(60s), std::future_status::ready);
  EXPECT_EQ(begun, 1);
  first.get();
  second.get();
  // its transport lives
  expect_echoes(job.ask(0, "who?", 500ms), 3, "who?", {1});
}

}  // namespace
}  // namespace troupe::comm
