// Any rank, or the launcher, gets any signal at any moment, from its first instruction on: all end in time, the report says who was hit,
// nothing is left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "runtime/base/rng.h"
#include "tests/proc/train/cluster.h"

namespace troupe::test {
namespace {

using testing::HasSubstr;
using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kAnyMomentSoon{10}, kBudget{25};
constexpr int kRanks = 4;

// Shared memory that these processes have made and nobody uses, or that lies where they were told.
std::string shared_memory_left(const std::set<pid_t>& made_by, const std::string& folder) {
  std::string found;
  std::istringstream table(read_text("/proc/sysvipc/shm"));
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::int64_t key, id, permissions, bytes, creator, last, attached;
    words >> key >> id >> permissions >> bytes >> creator >> last >> attached;
    if (attached == 0 && made_by.contains(static_cast<pid_t>(creator))) found += "segment " + std::to_string(id) + " ";
  }
  if (!folder.empty() && std::filesystem::exists(folder)) found += folder;
  return found;
}

// The ranks that the ranks' own reports blame.
std::set<int> blamed(const std::string& err) {
  static const std::regex report("\\[[0-9]\\] troupe: [^\n]*?failed: rank ([0-9]) (is|on|ended)");
  std::set<int> ranks;
  for (std::sregex_iterator at(err.begin(), err.end(), report), end; at != end; ++at) ranks.insert(std::stoi((*at)[1]));
  return ranks;
}

TEST(AnyMoment, ASignalToAnyRankEndsAllInTimeAndLeavesNothing) {
  const TinyRun run;
  const RandomStream random({.seed = 7});
  std::uint64_t draw = 0;
  std::map<int, int> by_signal;
  int trained = 0, trial = 0;
  const auto end = Clock::now() + kBudget;
  for (; Clock::now() < end; ++trial) {
    const std::string name = "job-" + std::to_string(trial), output = run.output(name);
    // SIGKILL as often as the others together: those take the heartbeats' time, or a step's.
    const int number = std::array{SIGKILL, SIGKILL, SIGTERM, SIGSTOP}[random.at(draw++) % 4];
    const int victim = static_cast<int>(random.at(draw++) % (kRanks + 1));  // kRanks: the launcher
    const bool launcher = victim == kRanks;
    const auto moment = std::chrono::milliseconds(random.at(draw++) % 2500);
    SCOPED_TRACE(name + ": signal " + std::to_string(number) + " to " + (launcher ? "the launcher" : "rank " + std::to_string(victim)) +
                 " after " + std::to_string(moment.count()) + " ms");
    const std::vector<std::string> endless{"--training.steps=100000", "--lr_scheduler.total_steps=100000", "--job.heartbeat_timeout_s=1.5"};
    ToolProcess job(launched(run, kRanks, name, endless), run.folder());
    const auto begin = Clock::now();
    const auto is_there = [&] { return pid_of_rank(output, launcher ? 0 : victim) > 0; };
    ASSERT_TRUE(wait_until([&] { return (Clock::now() - begin >= moment && is_there()) || !job.running(); }));
    ASSERT_TRUE(job.running()) << job.err();
    trained += !steps_of(output).empty();
    std::set<pid_t> pids;
    for (const auto& [rank, pid] : ranks_of(output)) pids.insert(pid);
    const std::string folder = variable_of(pid_of_rank(output, launcher ? 0 : victim), "UCX_POSIX_DIR");
    EXPECT_NE(folder, "");
    const auto hit = Clock::now();
    if (launcher) {
      job.signal(number == SIGSTOP ? SIGKILL : number);  // a launcher that is stopped stops nobody: its ranks train on
    } else {
      ASSERT_TRUE(signal_process(pid_of_rank(output, victim), number));
    }
    ++by_signal[number];
    const Ended& ended = job.wait(kAnyMomentSoon);
    EXPECT_TRUE(wait_until([&] { return ranks_of(output).empty(); }, kAnyMomentSoon - (Clock::now() - hit)))
        << ranks_of(output).size() << " ranks are left\n" << ended.err;
    EXPECT_LT(Clock::now() - hit, kAnyMomentSoon) << ended.err;
    if (!launcher && number == SIGKILL) {
      EXPECT_EQ(ended.exit_code, 128 + SIGKILL) << ended.err;
      EXPECT_THAT(ended.err, HasSubstr("rank " + std::to_string(victim) + " on localhost died of signal 9"));
    }
    if (!launcher && number == SIGSTOP) {
      EXPECT_NE(ended.exit_code, 0);
      EXPECT_THAT(ended.err, HasSubstr("rank " + std::to_string(victim) + " "));
    }
    for (const int rank : blamed(ended.err)) EXPECT_EQ(rank, victim) << ended.err;
    EXPECT_TRUE(wait_until([&] { return shared_memory_left(pids, folder).empty(); }, std::chrono::seconds(5)))
        << shared_memory_left(pids, folder);
    if (HasFailure()) return;
    std::filesystem::remove_all(output);
  }
  std::printf("%d jobs of %d ranks: %d SIGKILL, %d SIGTERM, %d SIGSTOP; %d had trained\n", trial, kRanks, by_signal[SIGKILL],
              by_signal[SIGTERM], by_signal[SIGSTOP], trained);
  EXPECT_GE(trial, 5);
}

}  // namespace
}  // namespace troupe::test
