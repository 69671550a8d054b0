// Who may tell a job what to do, without a network: tokens, proofs, questions that come again.
#include "actors/inspect/authority.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cctype>
#include <chrono>
#include <thread>
#include <vector>

namespace troupe::test {
namespace {

using actors::Authority;
using actors::Question;

const std::string kKey(32, 'k');

Question pause_question() { return {.verb = "pause", .words = {{"actor", "stage-0"}, {"rank", "1"}}}; }

TEST(Authority, AllRanksHaveOneTokenAndOtherJobsAnother) {
  const Authority one(kKey, 0, 2), other(kKey, 1, 2), stranger(std::string(32, 'x'), 0, 2);
  EXPECT_EQ(one.token().size(), 64u);
  EXPECT_EQ(one.token(), other.token());
  EXPECT_NE(one.token(), stranger.token());
  EXPECT_EQ(Authority("", 0, 2).token(), "");
}

TEST(Authority, EachWrongTokenIsRefusedAndCounted) {
  Authority authority(kKey, 0, 1);
  EXPECT_TRUE(authority.check(authority.token()).ok());
  std::string upper = authority.token(), flipped = authority.token();
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  flipped.back() = flipped.back() == '0' ? '1' : '0';
  const std::vector<std::string> wrong{"",     authority.token().substr(1), authority.token() + "0", flipped, upper + "x", std::string(64, '\0'), kKey,
                                       "pass", std::string(100'000, 'a')};
  for (const auto& token : wrong) EXPECT_TRUE(absl::IsUnauthenticated(authority.check(token))) << token.substr(0, 70);
  EXPECT_EQ(authority.refused(), static_cast<std::int64_t>(wrong.size()));
}

TEST(Authority, WithoutAKeyNoTokenIsRight) {
  Authority authority("", 0, 2);
  EXPECT_TRUE(absl::IsPermissionDenied(authority.check("")));
  EXPECT_TRUE(absl::IsPermissionDenied(authority.check("x")));
  Question question = pause_question();
  authority.sign(question);
  EXPECT_TRUE(absl::IsPermissionDenied(authority.once(question, [] { return std::string("done"); }).status()));
}

TEST(Authority, WrongTokensKeepNobodyOut) {
  Authority authority(kKey, 0, 1);
  std::atomic<bool> done{false};
  std::atomic<int> answered_at_once{0};
  std::vector<std::thread> strangers;
  for (int i = 0; i < 6; ++i) {
    strangers.emplace_back([&] {
      while (!done) {
        if (absl::IsResourceExhausted(authority.check("wrong"))) ++answered_at_once;
        std::this_thread::yield();
      }
    });
  }
  while (answered_at_once == 0) std::this_thread::yield();  // all that may wait do
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(authority.check(authority.token()).ok());
  const auto took = std::chrono::steady_clock::now() - begun;
  done = true;
  for (auto& stranger : strangers) stranger.join();
  EXPECT_LT(took, 100 * Authority::kWrongWaits / 2);
}

TEST(Authority, AQuestionIsCarriedOutOnce) {
  Authority asks(kKey, 0, 2), answers(kKey, 1, 2);
  int times = 0;
  const auto carry_out = [&times] { return std::to_string(++times); };
  Question question = pause_question();
  asks.sign(question);
  EXPECT_EQ(answers.once(question, carry_out).value_or("refused"), "1");
  EXPECT_EQ(answers.once(question, carry_out).value_or("refused"), "1") << "it came again, on another way";
  Question next = pause_question();
  asks.sign(next);
  EXPECT_EQ(answers.once(next, carry_out).value_or("refused"), "2");
  EXPECT_TRUE(absl::IsPermissionDenied(answers.once(question, carry_out).status())) << "somebody plays back an old one";
  EXPECT_EQ(times, 2);
  EXPECT_EQ(answers.refused(), 1);
}

TEST(Authority, AQuestionThatIsNotProvedIsRefused) {
  Authority asks(kKey, 0, 2), answers(kKey, 1, 2), stranger(std::string(32, 'x'), 0, 2), beyond(kKey, 2, 3);
  const auto carry_out = []() -> StatusOr<std::string> {
    ADD_FAILURE();
    return std::string();
  };
  std::vector<Question> wrong{pause_question()};
  for (Authority* by : {&stranger, &beyond}) {
    wrong.push_back(pause_question());
    by->sign(wrong.back());
  }
  Question right = pause_question();
  asks.sign(right);
  for (const auto& [key, value] : right.words) {
    for (const std::string& other : {std::string(), value + "0", std::string("1")}) {
      if (other == value) continue;
      wrong.push_back(right);
      wrong.back().words[key] = other;
    }
    wrong.push_back(right);
    wrong.back().words.erase(key);
  }
  wrong.push_back(right);
  wrong.back().verb = "step";
  wrong.push_back(right);
  wrong.back().words["more"] = "";
  wrong.push_back(right);
  wrong.back().words["proof"] = asks.token();
  for (const auto& question : wrong) EXPECT_TRUE(absl::IsPermissionDenied(answers.once(question, carry_out).status())) << to_text(question);
  EXPECT_EQ(answers.refused(), static_cast<std::int64_t>(wrong.size()));
  EXPECT_TRUE(answers.once(right, [] { return std::string(); }).ok());
}

}  // namespace
}  // namespace troupe::test
