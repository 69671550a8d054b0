// A terminal of a test's own: a tmux server with one pane in which a script runs, read and typed into as a person does.
//
// The script runs in a shell that is not interactive: one that is puts the terminal right again after a program that has not.
// Threads: one. Owns: the server and what runs in it.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/tool/tool_process.h"

namespace troupe::test {

class Tmux {
 public:
  Tmux(const std::string& folder, int columns, int rows, const std::vector<std::string>& command) : socket_(unused(folder)) {
    std::vector<std::string> words{"-f", "/dev/null", "new-session", "-d", "-x", absl::StrCat(columns), "-y", absl::StrCat(rows)};
    words.insert(words.end(), command.begin(), command.end());
    ask(words);
  }
  ~Tmux() { ask({"kill-server"}); }
  Tmux(const Tmux&) = delete;
  Tmux& operator=(const Tmux&) = delete;

  // Names of keys, such as q, Enter, C-c, or letters.
  void type(const std::vector<std::string>& keys) const {
    std::vector<std::string> words{"send-keys"};
    words.insert(words.end(), keys.begin(), keys.end());
    ask(words);
  }
  void resize(int columns, int rows) const { ask({"resize-window", "-x", absl::StrCat(columns), "-y", absl::StrCat(rows)}); }
  void close() const { ask({"kill-session"}); }

  std::string screen() const { return ask({"capture-pane", "-p"}); }
  bool shows(const std::string& text, std::chrono::seconds within = std::chrono::seconds(30)) const {
    return wait_until([&] { return screen().find(text) != std::string::npos; }, within);
  }
  bool hides(const std::string& text) const {
    return wait_until([&] { return screen().find(text) == std::string::npos; }, std::chrono::seconds(30));
  }
  // "0 1": not on the second screen that programs draw on, cursor to be seen.
  std::string drawn_on() const { return std::string(absl::StripSuffix(ask({"display", "-p", "#{alternate_on} #{cursor_flag}"}), "\n")); }

 private:
  // Of no other server, also of none that is about to end.
  static std::string unused(const std::string& folder) {
    static int servers = 0;
    return absl::StrCat(folder, "/tmux", ++servers, ".socket");
  }
  static std::string quoted(const std::string& word) { return absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'"); }
  std::string ask(const std::vector<std::string>& words) const {
    const std::string line = absl::StrCat("LC_ALL=C.UTF-8 tmux -S ", quoted(socket_), " ", absl::StrJoin(words, " ", [](std::string* out, const std::string& word) { *out += quoted(word); }), " 2>&1");
    FILE* answer = popen(line.c_str(), "r");
    EXPECT_NE(answer, nullptr);
    std::string text;
    char bytes[4096];
    for (std::size_t got = 0; answer != nullptr && (got = fread(bytes, 1, sizeof bytes, answer)) > 0;) text.append(bytes, got);
    if (answer != nullptr) pclose(answer);
    return text;
  }
  const std::string socket_;
};

// A terminal in which one program runs; what the terminal was before, and is after it.
class TerminalRun {
 public:
  TerminalRun(const std::string& folder, int columns, int rows, const std::string& program)
      : folder_(folder), tmux_(folder, columns, rows, {"sh", script(folder, program)}) {}

  const Tmux& tmux() const { return tmux_; }
  pid_t pid() const {
    std::string text;
    wait_until([&] { return (text = read_text(folder_ + "/pid")).ends_with("\n"); });
    return static_cast<pid_t>(std::atoi(text.c_str()));
  }
  bool ended() const {
    return wait_until([&] { return read_text(folder_ + "/after").ends_with("\n"); }, std::chrono::seconds(30));
  }
  // Of the program, once it has ended.
  std::string code() const { return std::string(absl::StripSuffix(read_text(folder_ + "/code"), "\n")); }
  void expect_terminal_as_it_was(const std::string& what) const {
    ASSERT_TRUE(ended()) << what << ":\n" << tmux_.screen();
    EXPECT_EQ(read_text(folder_ + "/after"), read_text(folder_ + "/before")) << what;
    EXPECT_EQ(tmux_.drawn_on(), "0 1") << what;
  }

 private:
  static std::string script(const std::string& folder, const std::string& program) {
    const std::string path = folder + "/run.sh";
    std::ofstream(path) << "cd " << folder << "\ntrap : INT QUIT\nstty -g > before\necho above\nsh -c 'echo $$ > pid; exec " << program
                        << "'\necho $? > code\nstty -g > after.new\nmv after.new after\nexec cat\n";
    for (const char* old : {"/pid", "/code", "/after"}) std::remove((folder + old).c_str());
    return path;
  }
  const std::string folder_;
  const Tmux tmux_;
};

}  // namespace troupe::test
