#include "tests/bench/outliving_guard.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace troupe::bench {
namespace {

// A pipe whose reading end tells how often was cleaned: a letter each, then the end.
class Cleaned {
 public:
  Cleaned() { EXPECT_EQ(pipe(ends_), 0); }
  ~Cleaned() { close(ends_[0]); }
  void clean() const { EXPECT_EQ(write(ends_[1], "x", 1), 1); }
  // Once nobody is left who could.
  int times() {
    close(ends_[1]);
    int count = 0;
    for (char letter; read(ends_[0], &letter, 1) == 1;) ++count;
    return count;
  }
  bool yet() const {
    pollfd here{.fd = ends_[0], .events = POLLIN, .revents = 0};
    return poll(&here, 1, 0) == 1;
  }

 private:
  int ends_[2];
};

TEST(OutlivingGuard, CleansOnceWhenItGoes) {
  Cleaned cleaned;
  {
    auto guard = OutlivingGuard::start([&] { cleaned.clean(); });
    ASSERT_TRUE(guard.ok()) << guard.status();
    const OutlivingGuard moved = *std::move(guard);
    EXPECT_FALSE(cleaned.yet());
  }
  EXPECT_TRUE(cleaned.yet());  // before the guard's end has returned
  EXPECT_EQ(cleaned.times(), 1);
}

TEST(OutlivingGuard, CleansWhenItsProcessIsKilled) {
  Cleaned cleaned;
  const pid_t bench = fork();
  if (bench == 0) {
    const auto guard = OutlivingGuard::start([&] { cleaned.clean(); });
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(bench, &status, 0), bench);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(cleaned.times(), 1);
}

}  // namespace
}  // namespace troupe::bench
