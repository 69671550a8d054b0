// The circle of tools/examples/deadlock, named by whoever looks; what README says of that.
#include <set>
#include <sstream>

#include "tests/proc/inspect/inspect_fixture.h"

namespace troupe::test {
namespace {

using testing::HasSubstr;

std::set<std::string> circle_of(const nlohmann::json& waits) {
  const auto cycles = waits.value("cycles", nlohmann::json::array());
  return cycles.size() == 1 ? cycles[0].get<std::set<std::string>>() : std::set<std::string>();
}

// The commands of README's section, without "build/release/".
std::vector<std::vector<std::string>> commands_of_readme() {
  std::istringstream readme(read_text("README.md"));
  std::vector<std::vector<std::string>> commands;
  bool in_section = false;
  for (std::string line; std::getline(readme, line);) {
    if (line.starts_with("##")) in_section = line == "## Look inside";
    const std::string prefix = "build/release/troupe ";
    if (!in_section || !line.starts_with(prefix + "inspect") ) continue;
    std::istringstream words(line.substr(prefix.size(), line.find('#') - prefix.size()));
    commands.emplace_back();
    for (std::string word; words >> word;) commands.back().push_back(word);
  }
  return commands;
}

TEST_F(Inspect, NamesACircleOverTwoProcesses) {
  ToolProcess job({"launch", "--nproc", "2", "--", DEADLOCK_PROGRAM}, folder());
  ASSERT_TRUE(here(2)) << job.err();
  const std::set<std::string> circle{"0/red", "0/green", "1/blue"};
  EXPECT_TRUE(wait_until([&] { return circle_of(json_of({"inspect", "waits", "--json"})) == circle; }, std::chrono::seconds(20)))
      << tool({"inspect", "waits", "--json"}).out;
  const Ended waits = tool({"inspect", "waits"});
  for (const char* actor : {"rank 0 red waits for", "rank 0 green waits for", "rank 1 blue waits for"}) EXPECT_THAT(waits.out, HasSubstr(actor));
  const auto commands = commands_of_readme();
  EXPECT_GE(commands.size(), 3u);
  for (const auto& command : commands) {
    const Ended ended = tool(command);
    EXPECT_EQ(ended.exit_code, 0) << testing::PrintToString(command) << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("red")) << testing::PrintToString(command);
  }
  job.signal(SIGTERM);
  job.wait();
}

TEST_F(Inspect, NamesACircleInOneProcess) {
  ToolProcess job({"launch", "--nproc", "1", "--", DEADLOCK_PROGRAM}, folder());
  ASSERT_TRUE(here(1)) << job.err();
  const std::set<std::string> circle{"0/red", "0/green", "0/blue"};
  EXPECT_TRUE(wait_until([&] { return circle_of(json_of({"inspect", "waits", "--json"})) == circle; }, std::chrono::seconds(20)))
      << tool({"inspect", "waits", "--json"}).out;
  job.signal(SIGTERM);
  job.wait();
}

TEST_F(Inspect, OfSeveralJobsOneMustBeNamed) {
  ToolProcess one({"launch", "--nproc", "1", "--", DEADLOCK_PROGRAM}, folder());
  ToolProcess two({"launch", "--nproc", "1", "--", DEADLOCK_PROGRAM}, folder());
  ASSERT_TRUE(here(2)) << one.err() << two.err();
  const auto both = jobs();
  ASSERT_EQ(both.size(), 2u);
  const Ended unnamed = tool({"inspect", "actors"});
  EXPECT_EQ(unnamed.exit_code, 2);
  for (const auto& job : both) {
    const auto id = job["job"].get<std::string>();
    EXPECT_THAT(unnamed.err, HasSubstr(id));
    EXPECT_EQ(json_of({"inspect", id, "actors", "--json"})["job"], id);
  }
  EXPECT_THAT(tool({"inspect", "nonesuch", "actors"}).err, HasSubstr("no running job is called nonesuch"));
  for (auto* job : {&one, &two}) {
    job->signal(SIGTERM);
    job->wait();
  }
  EXPECT_THAT(tool({"inspect", "actors"}).err, HasSubstr("no job of this user runs"));
}

}  // namespace
}  // namespace troupe::test
