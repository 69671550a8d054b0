#include "tests/bench/forked.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace troupe::bench {
namespace {

void echo(int socket, int rank) {
  for (std::string packet = next_packet(socket); !packet.empty(); packet = next_packet(socket)) {
    if (packet == "die") _exit(3);
    if (packet == "never") continue;
    send_packet(socket, std::to_string(rank) + packet);
  }
}

TEST(ForkedRanks, AnswerEachOnItsOwn) {
  auto ranks = ForkedRanks::fork(3, echo);
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  for (int rank : {2, 0, 1}) ASSERT_TRUE(ranks->send(rank, "!").ok());
  for (int rank : {1, 2, 0}) EXPECT_EQ(ranks->receive(rank).value(), std::to_string(rank) + "!");
}

TEST(ForkedRanks, NameTheOneThatEndedWhileAnotherIsWaitedFor) {
  auto ranks = ForkedRanks::fork(2, echo);
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  ASSERT_TRUE(ranks->send(0, "never").ok());
  ASSERT_TRUE(ranks->send(1, "die").ok());
  const auto answer = ranks->receive(0);
  EXPECT_TRUE(absl::IsUnavailable(answer.status())) << answer.status();
  EXPECT_NE(answer.status().message().find("rank 1"), std::string::npos) << answer.status();
}

TEST(ForkedRanks, EndWithWhoeverAskedForThem) {
  pid_t pid = 0;
  {
    auto ranks = ForkedRanks::fork(1, echo);
    ASSERT_TRUE(ranks.ok()) << ranks.status();
    pid = ranks->pid(0);
    EXPECT_EQ(kill(pid, 0), 0);
  }
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

}  // namespace
}  // namespace troupe::bench
