// What `troupe launch` is told, and what it says to what makes no sense.
#include <filesystem>
#include <fstream>

#include "tests/proc/launch/launch_fixture.h"

namespace troupe::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class LaunchArguments : public Launch {
 protected:
  // "host rank local_rank local_world" of each rank.
  Words places(Words options) const {
    options.insert(options.end(), {"--ssh", kFakeSsh});
    const Ended ended = run(options, {"sh", "-c", "echo $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE"});
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    Words lines = lines_of(ended.out);
    for (auto& line : lines) line.erase(0, line.find(' ') + 1);
    std::ranges::sort(lines);
    // A shell of fake_ssh.sh welcomes to each host once.
    Words hosts;
    for (const auto& line : lines_of(ended.err)) {
      if (const auto at = line.find("welcome to "); at != std::string::npos) hosts.push_back(line.substr(at + 11));
    }
    std::ranges::sort(hosts);
    lines.insert(lines.end(), hosts.begin(), hosts.end());
    return lines;
  }
  std::string host_file(const std::string& text) const {
    std::ofstream(path("hosts")) << text;
    return path("hosts");
  }
};

TEST_F(LaunchArguments, AHostThatIsNamedAgainAddsItsRanks) {
  const Words wanted{"0 of 5, 0 of 4", "1 of 5, 1 of 4", "2 of 5, 2 of 4", "3 of 5, 3 of 4", "4 of 5, 0 of 1", "a", "b"};
  EXPECT_EQ(places({"--hosts", "a:2,b:1,a:2"}), wanted);
  EXPECT_EQ(places({"--hostfile", host_file("a slots=2\nb\na:2\n")}), wanted);
  // The names of this machine are one host, without ssh.
  EXPECT_EQ(places({"--hosts", "localhost,127.0.0.1,[::1]:1"}), (Words{"0 of 3, 0 of 3", "1 of 3, 1 of 3", "2 of 3, 2 of 3"}));
}

TEST_F(LaunchArguments, AHostFileHasOpenMpisForms) {
  const std::string file = host_file(
      "# comment\n\n  \t\na\nb:2  # two\r\nc slots=2\nd slots=2 max_slots=8\ne max-slots=2\nf slots = 1\nfe80::1\n[fe80::2]:2\nfe80::3%eth0 slots=1\nme@g:1\n");
  const Words lines = places({"--nproc", "3", "--hostfile", file});
  EXPECT_THAT(lines, testing::Contains("18 of 19, 0 of 1")) << "3 + 2 + 2 + 2 + 2 (of 3) + 1 + 3 + 2 + 1 + 1";
  EXPECT_THAT(Words(lines.begin() + 19, lines.end()), testing::UnorderedElementsAre("a", "b", "c", "d", "e", "f", "fe80::1", "fe80::2", "fe80::3%eth0", "me@g"));
}

TEST_F(LaunchArguments, AllBadLinesOfAHostFileAreNamed) {
  const std::string file = host_file("a:2 slots=4\ngood\na slots=none\na junk=4\na slot=4\na slots=4 max_slots=2\n[::1\na:\na:b:2\na slots=2 slots=2\n-oX\na slots\n");
  const Ended ended = run({"--hostfile", file}, {"true"});
  EXPECT_EQ(ended.exit_code, 2);
  const Words lines = lines_of(ended.err);
  ASSERT_EQ(lines.size(), 12u) << ended.err;
  EXPECT_EQ(lines[0], "troupe: --hostfile " + file + " has 11 bad lines:");
  const std::vector<std::pair<int, std::string>> wanted{{1, "'slots=4' is a second number of ranks for a:2"},
                                                        {3, "'none' is no number of ranks"},
                                                        {4, "'junk=4' is unknown; slots=N and max_slots=N may follow the host"},
                                                        {5, "did you mean slots?"},
                                                        {6, "a has 4 ranks, more than its max_slots=2"},
                                                        {7, "'[::1' is no host"},
                                                        {8, "'a:': '' is no number of ranks"},
                                                        {9, "'a:b:2' is no host"},
                                                        {10, "second number of ranks"},
                                                        {11, "'-oX' is no host"},
                                                        {12, "'slots' is no number of ranks"}};
  for (std::size_t i = 0; i < wanted.size(); ++i)
    EXPECT_THAT(lines[i + 1], testing::AllOf(testing::StartsWith(file + ":" + std::to_string(wanted[i].first) + ": "), HasSubstr(wanted[i].second)));
}

TEST_F(LaunchArguments, WhatMakesNoSenseIsOneErrorThatSaysWhatDoes) {
  const std::string none = host_file("# nobody\n");
  const std::vector<std::pair<Words, std::string>> wrong{
      {{"--nproc", "0"}, "launch: --nproc: '0' is not a whole number from 1 to 4096; see troupe launch --help"},
      {{"--nproc", "x"}, "launch: --nproc: 'x' is not a whole number from 1 to 4096; see"},
      {{"--nproc", "2.5"}, "launch: --nproc: '2.5' is not a whole number from 1 to 4096; see"},
      {{"--timeout", "-1"}, "launch: --timeout: '-1' is not a number from 0 to 1000000000; see"},
      {{"--timeout", "nan"}, "launch: --timeout: 'nan' is not a number from 0 to"},
      {{"--nprco", "2"}, "launch: there is no option --nprco; did you mean --nproc? See troupe launch --help. The program stands behind --"},
      {{"--nprco=2"}, "launch: there is no option --nprco; did you mean --nproc?"},
      {{"--hosts", ""}, "launch: --hosts: '' is not HOST or HOST:RANKS, several separated by commas, such as a:4,b:4"},
      {{"--hostfile", ""}, "launch: --hostfile: '' is not a file"},
      {{"--log-dir", ""}, "launch: --log-dir: '' is not a folder"},
      {{"--ssh", " "}, "--ssh: a command must be given"},
      {{"--hosts", "a:0"}, "--hosts 'a:0': 'a:0': '0' is no number of ranks, which is from 1 to"},
      {{"--hosts", "a,,b"}, "--hosts 'a,,b': '' is no host"},
      {{"--hosts", "-oProxyCommand=x:1"}, "'-oProxyCommand=x:1' is no host"},
      {{"--hosts", "a:1048576,b:1"}, "at most 1048576 ranks"},
      {{"--hosts", "a", "--hostfile", "b"}, "--hosts and --hostfile are both given"},
      {{"--hostfile", path("none")}, "--hostfile " + path("none") + ": there is no such file"},
      {{"--hostfile", folder_}, "--hostfile " + folder_ + ": there is no such file"},
      {{"--hostfile", none}, "--hostfile " + none + " names no host"},
      {{"--env", "X"}, "NAME=VALUE"},
      {{"--env", "RANK=3"}, "the launcher sets RANK itself"},
      {{"--env", "TROUPE_SECRET=3"}, "the launcher sets TROUPE_SECRET itself"},
      {{"--log-dir", "/dev/null/x"}, "--log-dir: cannot write /dev/null/x"}};
  for (const auto& [options, said] : wrong) {
    const Ended ended = run(options, {"true"});
    EXPECT_EQ(ended.exit_code, 2) << ended.err;
    EXPECT_EQ(lines_of(ended.err).size(), 1u) << ended.err;
    EXPECT_THAT(ended.err, testing::StartsWith("troupe: "));
    EXPECT_THAT(ended.err, HasSubstr(said));
  }
  EXPECT_THAT(run_tool({"launch"}, folder_).err, HasSubstr("which program"));
}

}  // namespace
}  // namespace troupe::test
