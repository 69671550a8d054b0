// Relays between hosts that are network namespaces: how many talk to the store, and what the death of who runs a relay looks like.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/tool/tool_process.h"

namespace troupe::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf, testing::HasSubstr;

class Relay : public testing::Test {
 protected:
  Relay() {
    std::string name = fs::temp_directory_path() / "relay-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~Relay() override { fs::remove_all(folder_); }

  // Runs a shell's script where `hosts` hosts are (with_hosts.sh). False where there are no namespaces.
  bool run(int hosts, const std::string& script) {
    std::ofstream(folder_ + "/script") << "cd " << folder_ << "\n"
                                       << "until_there() { for ((i = 0; i < 6000; ++i)); do [ -e $1 ] && return; read -rt 0.01 <> <(:); done; false; }\n"
                                       << script;
    const int status = std::system((WITH_HOSTS " " + std::to_string(hosts) + " bash " + folder_ + "/script >" + folder_ + "/log 2>&1").c_str());
    log_ = read_text(folder_ + "/log");
    if (WEXITSTATUS(status) == 77) return false;
    EXPECT_EQ(status, 0) << log_;
    return true;
  }
  // Writes how many connections the store has where `in` leads, and lets the ranks go.
  static std::string count(const std::string& in) {
    return "until_there port\nport=$(printf %04X $(cat port))\n" + in +
           " cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk -v port=\":$port$\" '$2 ~ port && $4 == \"01\"' | wc -l >count\n: >counted\n";
  }
  int counted() const { return std::atoi(read_text(folder_ + "/count").c_str()); }

  std::string folder_, log_;
};

// As torchrun, Slurm and mpirun start a rank: two a host, rank 0 with the store.
std::string by_torchrun(int rank, const std::string& what) {
  const std::string host = std::to_string(1 + rank / 2), number = std::to_string(rank), local = std::to_string(rank % 2);
  return "ip netns exec $NETNS_" + host + " env RANK=" + number + " LOCAL_RANK=" + local +
         " WORLD_SIZE=6 LOCAL_WORLD_SIZE=2 MASTER_ADDR=$HOST_1 MASTER_PORT=29555 " JOIN_PROGRAM " " + what + " >out-" + number +
         " 2>&1; echo exit $? >>out-" + number + "\n";
}

TEST_F(Relay, TheLaunchersStoreHasOneConnectionAHost) {
  if (!run(3, TROUPE_BINARY " launch --hosts $HOST_1:4,$HOST_2:4,$HOST_3:1 --ssh \"$SSH\" -- " JOIN_PROGRAM " hold " + folder_ +
                  " &\n" + count("") + "wait $!\necho exit code $?\n"))
    GTEST_SKIP() << "skipped because " << log_;
  EXPECT_EQ(counted(), 3) << log_;
  EXPECT_THAT(log_, HasSubstr("exit code 0"));
}

TEST_F(Relay, RankZerosStoreHasOneConnectionAHostThatIsNotItsOwn) {
  std::string script;
  for (int rank = 0; rank < 6; ++rank) script += "(" + by_torchrun(rank, "hold " + folder_) + ") &\n";
  if (!run(3, script + count("ip netns exec $NETNS_1") + "wait\n")) GTEST_SKIP() << "skipped because " << log_;
  EXPECT_EQ(counted(), 2) << log_;
  for (int rank = 0; rank < 6; ++rank) EXPECT_EQ(read_text(folder_ + "/out-" + std::to_string(rank)), "exit 0\n");
}

// Rank 2 runs the relay of the second host; it vanishes with it.
TEST_F(Relay, TheRankThatRunsARelayIsNamedWhenItDies) {
  std::string script;
  for (int rank = 0; rank < 6; ++rank) script += "(" + by_torchrun(rank, "vanish 2") + ") &\n";
  const auto begin = std::chrono::steady_clock::now();
  if (!run(3, script + "wait\n")) GTEST_SKIP() << "skipped because " << log_;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  for (const int rank : {0, 1, 3, 4, 5}) {
    EXPECT_THAT(read_text(folder_ + "/out-" + std::to_string(rank)),
                AllOf(HasSubstr("failed: rank 2 is gone: the relay of host "), HasSubstr("exit 3\n")));
  }
}

}  // namespace
}  // namespace troupe::test
