// Who is none of the job: at its ports, or among its processes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>

#include "runtime/base/rng.h"
#include "tests/proc/train/cluster.h"
#include "tests/proc/train/ports.h"

namespace troupe::test {
namespace {

using testing::HasSubstr;
constexpr std::chrono::seconds kStrangersSoon{10};

// -1: nobody takes it.
int connect_to(const sockaddr_in& address) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  close(fd);
  return -1;
}

TEST(Strangers, WhateverTheySayAtAnyPortTheJobGoesOn) {
  const TinyRun run;
  const std::string output = run.output("job");
  ToolProcess job(launched(run, 2, "job", {"--training.steps=100000", "--lr_scheduler.total_steps=100000"}), run.folder());
  ASSERT_TRUE(wait_until([&] { return steps_of(output).size() >= 3 || !job.running(); }));
  ASSERT_TRUE(job.running()) << job.err();
  std::vector<sockaddr_in> ports;
  for (const auto& [rank, pid] : ranks_of(output)) {
    const auto more = listeners_of(pid);
    EXPECT_FALSE(more.empty()) << "UCX listens somewhere";
    ports.insert(ports.end(), more.begin(), more.end());
  }
  const auto store = listeners_of(job.pid());
  EXPECT_EQ(store.size(), 1u);
  ports.insert(ports.end(), store.begin(), store.end());
  for (const auto& port : ports) EXPECT_EQ(ntohl(port.sin_addr.s_addr), INADDR_LOOPBACK) << "a job on one machine is reached from it alone";

  const RandomStream random({.seed = 42});
  std::uint64_t draw = 0;
  std::vector<int> silent;
  for (const auto& port : ports) {
    for (int i = 0; i < 100; ++i) {
      const int fd = connect_to(port);
      if (fd < 0) continue;  // a full queue of those that were put out
      if (i % 10 == 0) {
        silent.push_back(fd);
        continue;
      }
      std::string bytes(random.at(draw++) % (i % 3 == 0 ? 5000 : 70), '\0');
      for (char& byte : bytes) byte = static_cast<char>(random.at(draw++));
      [[maybe_unused]] const auto sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      close(fd);
    }
  }
  EXPECT_GT(silent.size(), ports.size());
  const auto steps = steps_of(output).size();
  EXPECT_TRUE(wait_until([&] { return steps_of(output).size() > steps + 20 || !job.running(); }, kStrangersSoon));
  job.signal(SIGTERM);
  const Ended& ended = job.wait(kStrangersSoon);
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("the store refused a connection from 127.0.0.1"));
  EXPECT_THAT(ended.err, testing::ContainsRegex("the store refused [0-9]+ connections that were none of the job's"));
  for (const int fd : silent) close(fd);
}

// The same program but for one bit of its build id.
std::string another_build(const std::string& folder) {
  std::string program = read_text(TROUPE_BINARY);
  const std::string note("\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0", 16);
  const auto at = program.find(note);
  EXPECT_NE(at, std::string::npos) << "the program has no build id";
  program[at + note.size()] ^= 1;
  const std::string path = folder + "/another";
  std::ofstream(path, std::ios::binary) << program;
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

TEST(Strangers, ARankOfAnotherBuildEndsTheJobAndBothAreNamed) {
  const TinyRun run;
  std::string command = "program=" TROUPE_BINARY "; [ $TROUPE_RANK = 2 ] && program=" + another_build(run.folder()) + "; exec $program";
  const auto words = launched(run, 4, "job");
  for (std::size_t i = 5; i < words.size(); ++i) command += " '" + words[i] + "'";
  const auto begin = std::chrono::steady_clock::now();
  const Ended ended = run_tool({"launch", "--nproc", "4", "--", "sh", "-c", command}, run.folder());
  EXPECT_NE(ended.exit_code, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kStrangersSoon);
  EXPECT_THAT(ended.err, testing::ContainsRegex("troupe: rank [0-3] runs [^ ]+, rank [0-3] runs [^ ]+: start the same program everywhere"));
  EXPECT_THAT(ended.err, HasSubstr("rank 2 runs "));
  EXPECT_TRUE(ranks_of(run.output("job")).empty());
  EXPECT_FALSE(std::filesystem::exists(run.output("job"))) << "it was refused before anything was changed";
}

}  // namespace
}  // namespace troupe::test
