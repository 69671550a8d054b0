#include "tests/tool/tool_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>

#include "runtime/base/check.h"

namespace troupe::test {

bool wait_until(const std::function<bool()>& condition, std::chrono::nanoseconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool signal_process(pid_t pid, int number) {
  return pid > 0 && ::kill(pid, number) == 0;
}

namespace {

bool has_signal(pid_t pid, const std::string& mask, int number) {
  const std::string status = read_text("/proc/" + std::to_string(pid) + "/status");
  const auto at = status.find(mask + ":");
  return at != std::string::npos && (std::stoull(status.substr(at + mask.size() + 1), nullptr, 16) >> (number - 1) & 1) != 0;
}

}  // namespace

bool is_blocked(pid_t pid, int number) { return has_signal(pid, "SigBlk", number); }
bool is_pending(pid_t pid, int number) { return has_signal(pid, "ShdPnd", number); }

ToolProcess::ToolProcess(const std::vector<std::string>& arguments, const std::string& folder) {
  static std::atomic<int> count{0};
  const std::string stem = folder + "/child-" + std::to_string(count++);
  out_path_ = stem + ".out";
  err_path_ = stem + ".err";
  std::vector<char*> argv{const_cast<char*>(TROUPE_BINARY)};
  for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  pid_ = fork();
  TROUPE_CHECK(pid_ >= 0) << "fork";
  if (pid_ > 0) return;
  const int in = open("/dev/null", O_RDONLY);
  const int out = open(out_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  const int err = open(err_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  execv(argv[0], argv.data());
  _exit(127);
}

ToolProcess::~ToolProcess() {
  if (ended_) return;
  kill(pid_, SIGKILL);
  int status = 0;
  waitpid(pid_, &status, 0);
}

void ToolProcess::signal(int number) const {
  if (!ended_) kill(pid_, number);
}

void ToolProcess::note(int status) {
  ended_ = true;
  result_ = {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
             .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
             .out = read_text(out_path_),
             .err = read_text(err_path_)};
}

bool ToolProcess::running() {
  if (ended_) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return true;
  note(status);
  return false;
}

const Ended& ToolProcess::wait(std::chrono::nanoseconds deadline) {
  if (!wait_until([this] { return !running(); }, deadline)) {
    ADD_FAILURE() << "the tool did not end in time; it said: " << err();
    kill(pid_, SIGKILL);
    int status = 0;
    waitpid(pid_, &status, 0);
    note(status);
  }
  return result_;
}

Ended run_tool(const std::vector<std::string>& arguments, const std::string& folder) {
  return ToolProcess(arguments, folder).wait();
}

std::vector<std::pair<std::string, std::string>> contents_of(const std::string& folder) {
  std::vector<std::pair<std::string, std::string>> contents;
  if (!std::filesystem::exists(folder)) return contents;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().filename() == ".lock") continue;
    contents.emplace_back(entry.path().string(), entry.is_regular_file() ? read_text(entry.path().string()) : "");
  }
  std::ranges::sort(contents);
  return contents;
}

}  // namespace troupe::test
