// The ranks of one host, as the launcher sees them: here (LocalCrew), or behind ssh (launch_remote.h).
//
// Each rank is the leader of a process group of its own in the launcher's session. What it leaves in its group dies with it; what it
// leaves outside (launch_leftovers.h) ends after the last rank of the host. When its launcher dies, even of SIGKILL, the kernel kills
// the rank, and the guard, a child that does nothing but wait for that, kills the rest.
//
// Threads: one, the launcher's, which polls. Owns: the processes and their pipes; its destructor leaves nobody behind.
#pragma once

#include <poll.h>

#include <string>
#include <string_view>
#include <vector>

#include "comm/join/store.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "tools/troupe/launch_child.h"
#include "tools/troupe/launch_leftovers.h"

namespace troupe::tool {

enum class Stream { kOut, kErr };

class CrewListener {
 public:
  virtual ~CrewListener() = default;
  virtual void on_output(Rank rank, Stream stream, std::string_view bytes) = 0;
  virtual void on_ended(Rank rank, const Ending& ending) = 0;  // after its last output
  virtual void on_stopped(Rank rank, bool stopped) = 0;        // by a signal, until it goes on
  // The host is not to be had, or the program cannot be started there: no rank of the crew goes on.
  virtual void on_crew_failed(const std::string& what, int exit_code) = 0;
  virtual void on_host_line(const std::string& host, std::string_view line) = 0;  // of ssh itself
};

struct RankStart {
  Rank rank;
  std::vector<std::string> variables;  // "K=V", beside the environment of who starts it
};

class Crew {
 public:
  explicit Crew(std::string host) : host_(std::move(host)) {}
  virtual ~Crew() = default;
  const std::string& host() const { return host_; }

  virtual void start(const std::vector<RankStart>& ranks, const std::vector<std::string>& program) = 0;
  // What to poll; `room`: the ranks' output has somewhere to go. ready() for each that something happened to.
  virtual void add_descriptors(std::vector<pollfd>& polled, bool room) const = 0;
  virtual void ready(int fd) = 0;
  virtual void reap() = 0;  // after SIGCHLD
  virtual bool owns(pid_t child) const = 0;  // waits for its end
  virtual bool reached() const = 0;          // the ranks get signals
  virtual void signal(int number) = 0;  // to every rank that runs, with its group
  // What is due now; when to be called again. `listens`: the launcher has taken what the crew says (room, above).
  virtual comm::Deadline keep_time(bool listens) {
    static_cast<void>(listens);
    return comm::Deadline::max();
  }
  virtual void abandon() = 0;  // a SIGKILL had no effect within its time: what is here of the crew ends now
  virtual bool done() const = 0;

 private:
  const std::string host_;
};

class LocalCrew final : public Crew {
 public:
  LocalCrew(std::string host, const Guard& guard, CrewListener& listener)
      : Crew(std::move(host)), guard_(guard), listener_(listener), leftovers_(guard.mark()) {}
  ~LocalCrew() override;
  void start(const std::vector<RankStart>& ranks, const std::vector<std::string>& program) override;
  void add_descriptors(std::vector<pollfd>& polled, bool room) const override;
  void ready(int fd) override;
  void reap() override;
  bool owns(pid_t child) const override;
  bool reached() const override { return true; }
  void signal(int number) override;
  comm::Deadline keep_time(bool listens) override;
  void abandon() override {}
  bool done() const override { return !any_runs() && leftovers_.gone(); }
  static int files_needed(int ranks);  // that are open at once in the process that starts them

 private:
  struct Member {
    Rank rank;
    Child child;
  };
  void read(Member& member, int& fd, Stream stream);
  void look_whether_it_stands(const Member& member);
  bool any_runs() const;
  std::string state_path(Rank rank) const;
  const Guard& guard_;
  CrewListener& listener_;
  std::vector<Member> members_;
  Leftovers leftovers_;
};

}  // namespace troupe::tool
