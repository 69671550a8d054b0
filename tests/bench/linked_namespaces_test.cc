#include "tests/bench/linked_namespaces.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"

namespace troupe::bench {
namespace {

std::string name_of(pid_t process, int end) { return absl::StrCat("bench-", process, "-", end); }
bool is_there(const std::string& name) { return std::filesystem::exists("/run/netns/" + name); }
bool ip(const std::string& words) { return std::system(("ip netns " + words + " >/dev/null 2>&1").c_str()) == 0; }

// A process that has ended, after `body`: by this signal, or 0.
pid_t ended(const std::function<void()>& body, int by_signal = 0) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WTERMSIG(status), by_signal);
  return child;
}

TEST(LinkedNamespaces, GoWithAProcessThatIsKilled) {
  if (const auto here = LinkedNamespaces::create(); !here.ok()) GTEST_SKIP() << "skipped because " << here.status().message();
  const pid_t killed = ended([] {
    const auto made = LinkedNamespaces::create();
    if (made.ok() && is_there((*made)->name(1))) raise(SIGKILL);
  }, SIGKILL);
  const auto due = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while ((is_there(name_of(killed, 0)) || is_there(name_of(killed, 1))) && std::chrono::steady_clock::now() < due) std::this_thread::yield();
  EXPECT_FALSE(is_there(name_of(killed, 0)) || is_there(name_of(killed, 1)));
}

TEST(LinkedNamespaces, ThoseOfProcessesThatAreGoneAreRemovedByTheNextAlone) {
  if (const auto here = LinkedNamespaces::create(); !here.ok()) GTEST_SKIP() << "skipped because " << here.status().message();
  const std::string left = name_of(ended([] {}), 0), lives = name_of(getppid(), 0), foreign = "bench-mark-0";
  for (const auto& name : {left, lives, foreign}) ASSERT_TRUE(ip("add " + name));
  EXPECT_TRUE(LinkedNamespaces::create().ok());  // gone again at once
  EXPECT_FALSE(is_there(left));
  EXPECT_TRUE(is_there(lives));
  EXPECT_TRUE(is_there(foreign));
  for (const auto& name : {left, lives, foreign}) ip("delete " + name);
}

}  // namespace
}  // namespace troupe::bench
