// The ranks of another host: one ssh, and at its other end the same program as an agent that starts the ranks there.
//
// Launcher and agent speak frames (comm/join/frame.h) through ssh's stdin and stdout, so that neither the secret nor the
// environment stands in anybody's arguments. When ssh ends, the agent's stdin does, and it kills its ranks.
//   agent to launcher: the line kAgentLine, then  Ready{text build} Output{u32 rank, u8 stream, raw} Ended{u32 rank, u32 code,
//                      u32 signal, text last state} Stopped{u32 rank, u8 whether} Failed{u32 exit code, text} Here{}
//   launcher to agent: Start{text host, u32 words, text.., u32 ranks, (u32 rank, u32 variables, text..)..} Signal{u32 number} AreYouThere{}
// For several ranks the agent runs the host's relay to the store (comm/join/store_relay.h), so that no rank's death takes it.
// AreYouThere goes every second: of a link that is cut ssh may say nothing for a quarter of an hour.
// What comes before kAgentLine was written by the host's shell and is shown.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/join/frame.h"
#include "tools/troupe/launch_crew.h"
#include "tools/troupe/launch_output.h"

namespace troupe::tool {

inline constexpr std::string_view kAgentLine = "troupe agent 1\n";
enum RemoteFrame : std::uint8_t {
  kStart = 1, kSignal = 2, kAreYouThere = 3,
  kReady = 64, kOutput = 65, kEnded = 66, kFailed = 67, kHere = 68, kStopped = 69,
};

// As one word of a POSIX shell.
std::string shell_quoted(const std::string& text);

class RemoteCrew final : public Crew {
 public:
  // `ssh`: the command and its options; the host and one command line for its shell are added.
  RemoteCrew(std::string host, std::vector<std::string> ssh, const Guard& guard, CrewListener& listener);
  ~RemoteCrew() override;
  void start(const std::vector<RankStart>& ranks, const std::vector<std::string>& program) override;
  void add_descriptors(std::vector<pollfd>& polled, bool room) const override;
  void ready(int fd) override;
  void reap() override;
  bool owns(pid_t child) const override { return ssh_.pid == child; }
  bool reached() const override { return agent_speaks_ || failed_; }
  void signal(int number) override;
  comm::Deadline keep_time(bool listens) override;
  void abandon() override;
  bool done() const override { return !ssh_.running(); }

 private:
  void send(const std::string& frame);
  void flush();
  void take(const std::string& bytes);
  void handle(const std::string& frame);
  void fail(const std::string& what, int exit_code);
  std::string running_text() const;

  const std::vector<std::string> ssh_words_;
  const Guard& guard_;
  CrewListener& listener_;
  Child ssh_;
  std::string start_frame_, unsent_;
  std::string before_agent_;  // what came before kAgentLine
  bool agent_speaks_ = false, failed_ = false;
  comm::Deadline heard_{}, timed_{}, ask_at_{};
  comm::FrameSplitter splitter_;
  LineCutter out_lines_, err_lines_;
  Tail err_tail_;
  std::vector<Rank> running_;
};

// What `troupe launch --agent` does: until its ranks have ended, or its stdin.
int run_agent();

}  // namespace troupe::tool
