#include "runtime/actor/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "runtime/actor/sim_world.h"

namespace troupe::actor {
namespace {

using testing::HasSubstr;

struct Question {
  int value;
};
struct Reply {
  int value;
};
struct AskNow {
  int value;
};
struct Answered7 {};
struct Die {};

class Asker final : public Actor {
 public:
  explicit Asker(Ref target) : target_(std::move(target)) {
    on(&Asker::ask_now);
    on(&Asker::replied);
  }
  void ask_now(AskNow now) { asked.push_back(ask<Reply>(*this, target_, Question{now.value})); }
  void replied(Answered<Reply> answer) { answers.push_back(std::move(answer)); }
  std::vector<RequestId> asked;
  std::vector<Answered<Reply>> answers;

 private:
  Ref target_;
};

// Doubles even numbers, refuses 1, drops 3, keeps 5 and all above.
class Oracle final : public Actor {
 public:
  Oracle() {
    on(&Oracle::asked);
    on(&Oracle::answer_kept);
    on(&Oracle::die);
  }
  void asked(Request<Question, Reply> request) {
    const int value = request.question.value;
    if (value % 2 == 0) {
      request.answer.reply(Reply{2 * value});
    } else if (value == 1) {
      request.answer.fail(Status(absl::StatusCode::kInvalidArgument, "not one"));
    } else if (value != 3) {
      kept.push_back(std::move(request.answer));
    }
  }
  void answer_kept(Answered7) {
    kept.back().reply(Reply{7});
    kept.pop_back();
  }
  void die(Die) { fail(Status(absl::StatusCode::kDataLoss, "lost the book")); }
  std::vector<Answer<Reply>> kept;
};

// CASES A10. Each of the ways a request can end gives one answer.
struct RequestTest : testing::Test {
  SimWorld world{31, 1, {.stop_on_failure = false}};
  Oracle& oracle = world.system().add<Oracle>("oracle");
  Asker& asker = world.system().add<Asker>("asker", oracle.self());

  void SetUp() override { world.start(); }
  const Answered<Reply>& answer_to(int value) {
    const std::size_t before = asker.answers.size();
    asker.self().send(AskNow{value});
    world.settle();
    EXPECT_EQ(asker.answers.size(), before + 1) << "exactly one answer";
    EXPECT_EQ(asker.answers.back().id, asker.asked.back());
    return asker.answers.back();
  }
};

TEST_F(RequestTest, GetsExactlyOneAnswer) {
  const auto& answer = answer_to(4);
  ASSERT_TRUE(answer.result.ok());
  EXPECT_EQ(answer.result->value, 8);
}

TEST_F(RequestTest, GetsTheErrorOfTheTarget) {
  EXPECT_EQ(answer_to(1).result.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(RequestTest, GetsAnErrorWhenItIsDropped) {
  const auto status = answer_to(3).result.status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("actor 'oracle': the request was dropped"));
}

TEST_F(RequestTest, MayBeAnsweredLater) {
  asker.self().send(AskNow{5});
  world.settle();
  EXPECT_TRUE(asker.answers.empty());
  oracle.self().send(Answered7{});
  world.settle();
  ASSERT_EQ(asker.answers.size(), 1u);
  EXPECT_EQ(asker.answers[0].result->value, 7);
}

TEST_F(RequestTest, GetsAnErrorWhenTheTargetDiesBeforeItAnswers) {
  asker.self().send(AskNow{5});
  asker.self().send(AskNow{9});
  world.settle();
  oracle.self().send(Die{});
  world.settle();
  ASSERT_EQ(asker.answers.size(), 2u);
  for (const auto& answer : asker.answers) {
    EXPECT_EQ(answer.result.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(answer.result.status().message()),
                HasSubstr("'oracle' ended before it answered: DATA_LOSS: lost the book"));
  }
  oracle.kept.back().reply(Reply{1});  // too late: not a second answer
  world.settle();
  EXPECT_EQ(asker.answers.size(), 2u);
}

TEST_F(RequestTest, GetsAnErrorWhenTheTargetIsDead) {
  oracle.self().send(Die{});
  world.settle();
  EXPECT_EQ(answer_to(4).result.status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(RequestTest, GetsAnErrorWhenTheTargetDiesWithTheQuestionInItsMailbox) {
  world.settle();
  oracle.self().send(Die{});
  for (int i = 0; i < 50; ++i) asker.self().send(AskNow{4});
  world.settle();
  ASSERT_EQ(asker.answers.size(), 50u);
  for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(asker.answers[i].id, asker.asked[i]);
}

}  // namespace
}  // namespace troupe::actor
