// Hosts with a network between them: namespaces joined by a bridge. Over UCX's tcp alone, since they share this machine's memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

#include "tests/proc/train/cluster.h"

namespace troupe::test {
namespace {

using testing::AllOf, testing::HasSubstr, testing::Not;

class Hosts : public testing::Test {
 protected:
  // Two hosts with `each` ranks; `meanwhile` is run by a shell beside the launcher, where the bridge is. False where there are no
  // namespaces.
  bool launch(int each, const std::string& name, const std::string& meanwhile, const std::vector<std::string>& more = {}) {
    std::string words;
    const auto all = launched(run_, 2 * each, name, more);
    for (std::size_t i = 5; i < all.size(); ++i) words += " '" + all[i] + "'";
    const std::string slots = ":" + std::to_string(each), script = run_.folder() + "/" + name + ".sh";
    std::ofstream(script) << "cd " << run_.folder() << "\n(" << meanwhile << ") &\n"
                          << TROUPE_BINARY " launch --env UCX_TLS=tcp --hosts $HOST_1" << slots << ",$HOST_2" << slots
                          << " --ssh \"$SSH\" -- " TROUPE_BINARY << words << "\necho exit code $?\nwait\n"
                          << "echo $(cat /sys/class/net/port-1/statistics/rx_bytes) >bytes\n";
    const auto begin = std::chrono::steady_clock::now();
    const int status = std::system((WITH_HOSTS " 2 bash " + script + " >" + run_.folder() + "/log 2>&1").c_str());
    took_s_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    log_ = read_text(run_.folder() + "/log");
    if (WEXITSTATUS(status) == 77) return false;
    EXPECT_EQ(status, 0) << log_;
    return true;
  }
  // What the first host's interface has sent.
  double bytes_sent() const { return std::stod("0" + read_text(run_.folder() + "/bytes")); }

  TinyRun run_;
  double took_s_ = 0;
  std::string log_;
};

TEST_F(Hosts, TrainToTheSameBitsOverAnyLink) {
  ASSERT_EQ(run_tool(launched(run_, 2, "here"), run_.folder()).exit_code, 0);
  const auto expected = steps_of(run_.output("here"));
  ASSERT_EQ(expected.size(), 6u);
  if (!launch(1, "far", "true")) GTEST_SKIP() << "skipped because " << log_;
  EXPECT_THAT(log_, HasSubstr("exit code 0"));
  EXPECT_EQ(steps_of(run_.output("far")), expected);
  // Each of two ranks sends half of the gradients, then half of the sums; every step, in fp32. Of the embedding's, less than a tenth of all,
  // the rows of tokens that a step has not seen stay behind.
  const auto at = log_.find(" parameters, ");
  ASSERT_NE(at, std::string::npos) << log_;
  const double parameters = std::stod(log_.substr(log_.rfind(' ', at - 1) + 1)), whole = 6 * parameters * 4;
  EXPECT_GT(bytes_sent(), 0.9 * whole);
  EXPECT_LT(bytes_sent(), 1.1 * whole);

  const double free_s = took_s_, rate_bytes = 100e6 / 8;
  const std::string limit = "tc qdisc add dev port-$port root tbf rate 100mbit burst 64k latency 1s || echo there is no tbf";
  if (!launch(1, "slow", "for port in 1 2; do " + limit + "; done"))
    GTEST_SKIP() << "skipped because " << log_;
  if (log_.find("there is no tbf") != std::string::npos) GTEST_SKIP() << "skipped because a link cannot be limited (tc tbf): " << log_;
  EXPECT_EQ(steps_of(run_.output("slow")), expected);
  EXPECT_GT(took_s_, 0.8 * whole / rate_bytes) << "the link was not slow; free it took " << free_s << " s";
}

// Sums are made on each host first: what goes between hosts is what two ranks, one on each, would send; without zeros, as above.
TEST_F(Hosts, SumsGoBetweenHostsOnce) {
  if (!launch(2, "by-host", "true")) GTEST_SKIP() << "skipped because " << log_;
  EXPECT_THAT(log_, AllOf(HasSubstr("exit code 0"), HasSubstr("4 processes on 2 machines")));
  const auto at = log_.find(" parameters, ");
  ASSERT_NE(at, std::string::npos) << log_;
  const double parameters = std::stod(log_.substr(log_.rfind(' ', at - 1) + 1)), flat = 2 * 6 * parameters * 4;
  EXPECT_GT(bytes_sent(), 0.9 * flat / 2);
  EXPECT_LT(bytes_sent(), 1.2 * flat / 2);  // control frames too
}

// So do the weights that are pulled after a split update: a part goes to another host once, where the ranks take it from each other.
TEST_F(Hosts, PulledWeightsGoBetweenHostsOnce) {
  if (!launch(2, "nothing-pulled", "true", {"--parallelism.zero=0"})) GTEST_SKIP() << "skipped because " << log_;
  const auto expected = steps_of(run_.output("nothing-pulled"));
  ASSERT_EQ(expected.size(), 6u) << log_;
  for (const auto& [zero, pulls_most] : {std::pair{1, 7 * 1.0}, std::pair{3, 6 * 2.0}}) {
    const std::string name = "zero-" + std::to_string(zero);
    ASSERT_TRUE(launch(2, name, "true", {"--parallelism.zero=" + std::to_string(zero)})) << log_;
    EXPECT_THAT(log_, AllOf(HasSubstr("exit code 0"), HasSubstr("4 processes on 2 machines")));
    EXPECT_EQ(steps_of(run_.output(name)), expected);  // bit by bit, a step being one micro-batch of each replica
    const auto at = log_.find(" parameters, ");
    ASSERT_NE(at, std::string::npos) << log_;
    // In halves of the parameters, which is what one host owns and the other needs: the sums of 6 steps, made on each host first; ZeRO-1's weights at
    // the start and after each step, ZeRO-3's for each forward and each backward (less the last blocks, which still lie there).
    const double half = std::stod(log_.substr(log_.rfind(' ', at - 1) + 1)) * 4 / 2, sums = 6;
    EXPECT_GT(bytes_sent() / half, sums + 0.8 * pulls_most);
    EXPECT_LT(bytes_sent() / half, sums + 1.2 * pulls_most);  // control frames too, and what came too late for a mate's room; flat it is up to 2 * pulls_most
    printf("ZeRO-%d: %.2f halves of the parameters; %.0f is the most without control frames if each host pulls once\n", zero, bytes_sent() / half, sums + pulls_most);
  }
}

// CASES A15: nothing says that a link is cut but silence. With the heartbeats' default.
TEST_F(Hosts, ACutLinkEndsTheJobWithinTenSecondsAndIsNamed) {
  const std::string cut =
      "for ((i = 0; i < 3000; ++i)); do [ $(cat job/metrics.jsonl 2>/dev/null | wc -l) -ge 3 ] && break; read -rt 0.01 <> <(:); done; "
      "ip link set port-2 down; date +%s.%N >cut";
  if (!launch(2, "job", cut, {"--training.steps=100000", "--lr_scheduler.total_steps=100000"})) GTEST_SKIP() << "skipped because " << log_;
  const double ended_s = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  EXPECT_LT(ended_s - std::stod("0" + read_text(run_.folder() + "/cut")), 10) << log_;
  EXPECT_GE(steps_of(run_.output("job")).size(), 3u);
  // One of the ranks beyond the link, and nobody on this side of it.
  EXPECT_THAT(log_, testing::ContainsRegex("troupe: rank [23] is down: nothing was heard of it for 5000 ms \\(heard from rank [01]\\)"));
  for (const char* rank : {"0", "1"}) {
    EXPECT_THAT(log_, testing::ContainsRegex(std::string("\\[") + rank + "\\] troupe: actor '[a-z]+' failed: rank [23] is down"));
  }
  EXPECT_THAT(log_, Not(HasSubstr("exit code 0")));
  EXPECT_TRUE(ranks_of(run_.output("job")).empty());
}

}  // namespace
}  // namespace troupe::test
