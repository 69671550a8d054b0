// `troupe launch` with small programs in a folder of its own. Nobody is left behind, whatever happens.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tool/tool_process.h"

namespace troupe::test {

using Words = std::vector<std::string>;

inline constexpr std::chrono::seconds kStoppedWithin{6};  // 5 for SIGTERM to work, then SIGKILL
inline constexpr char kFakeSsh[] = "tests/proc/launch/fake_ssh.sh";

inline Words lines_of(const std::string& text) {
  Words lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Runs, and is no zombie that nobody has taken yet.
inline bool is_alive(pid_t pid) {
  const std::string stat = read_text("/proc/" + std::to_string(pid) + "/stat");
  const auto name_end = stat.rfind(')');
  return name_end != std::string::npos && stat[name_end + 2] != 'Z' && stat[name_end + 2] != 'X';
}

class Launch : public testing::Test {
 protected:
  Launch() {
    std::string name = std::filesystem::temp_directory_path() / "launch-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~Launch() override {
    EXPECT_TRUE(all_gone()) << "somebody was left behind";
    std::filesystem::remove_all(folder_);
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  static Words launch(const Words& options, const Words& program) {
    Words words{"launch"};
    words.insert(words.end(), options.begin(), options.end());
    words.push_back("--");
    words.insert(words.end(), program.begin(), program.end());
    return words;
  }
  // A shell's script for each rank. `note NAME` writes the shell's pid for pids(), `ready` tells that the rank is so far.
  Words script(const std::string& text) const {
    return {
        "sh", "-c",
        "cd " + folder_ +
            "; note() { echo $$ > note-$RANK.pid; mv note-$RANK.pid $RANK-$1.pid; }; ready() { : > ready-$RANK; }\nnote main\n" +
            text};
  }
  Ended run(const Words& options, const Words& program) const { return run_tool(launch(options, program), folder_); }
  bool all_ready(ToolProcess& process, int ranks) const {
    return wait_until([&] {
      int ready = 0;
      for (int rank = 0; rank < ranks; ++rank) ready += std::filesystem::exists(path("ready-" + std::to_string(rank)));
      return ready == ranks || !process.running();
    }) && process.running();
  }
  std::vector<pid_t> pids() const {
    std::vector<pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      if (entry.path().extension() == ".pid" && !entry.path().filename().string().starts_with("note"))
        found.push_back(std::atoi(read_text(entry.path()).c_str()));
    }
    return found;
  }
  bool all_gone() const {
    return wait_until([&] {
      for (const pid_t pid : pids()) {
        if (is_alive(pid)) return false;
      }
      return true;
    }, kStoppedWithin);
  }

  std::string folder_;
};

// A rank that heeds nothing but SIGKILL, with a child that does the same.
inline constexpr char kStubborn[] =
    "trap '' TERM INT HUP QUIT\n(sh -c 'echo $$ > note-$RANK.pid; mv note-$RANK.pid $RANK-child.pid; trap \"\" TERM INT; while "
    ":; do sleep 1; done') &\n"
    "until [ -e $RANK-child.pid ]; do sleep 0.01; done\nready\nwhile :; do sleep 1; done";

}  // namespace troupe::test
