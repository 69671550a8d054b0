// The ranks of one host, as the launcher sees them: here (LocalCrew), or behind ssh (launch_remote.h).
//
// Each rank is the leader of a process group of its own in the launcher's session. What it leaves in its group dies with it. When
// its launcher dies, even of SIGKILL, the kernel kills the rank, and the guard, a child that does nothing but wait for that,
// kills the groups.
//
// Threads: one, the launcher's, which polls. Owns: the processes and their pipes; its destructor leaves nobody behind.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "comm/join/store.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"

namespace troupe::tool {

struct Ending {
  int code = 0;    // of exit, if signal is 0
  int signal = 0;
  std::string last_state{};  // what it had written down of itself (state_file.h); the first line says when
  bool failed() const { return code != 0 || signal != 0; }
  int exit_code() const { return signal != 0 ? 128 + signal : code; }
  std::string text() const;  // "exited with code 3", "died of signal 9 (SIGKILL)"
};

enum class Stream { kOut, kErr };

inline constexpr int kNotFound = 127, kNotExecutable = 126;  // a shell's codes for a program that cannot be started

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

// Kills process groups when its parent has gone, and then clears the folder in which they had shared memory. Start it before any thread.
class Guard {
 public:
  Guard();
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  int descriptor() const { return fd_; }
  // In memory; what a rank that is killed leaves in it goes with the guard. Empty where none could be made.
  const std::string& folder() const { return folder_; }
  void forget(pid_t group) const;
  static void watch(int guard_fd, pid_t group);  // async-signal-safe

 private:
  pid_t pid_ = -1;
  int fd_ = -1;
  std::string folder_;
};

// A child in a group of its own, with pipes.
struct Child {
  pid_t pid = -1;
  int in = -1, out = -1, err = -1;  // non-blocking; in: only if asked for
  bool running() const { return pid > 0; }
};
struct ChildStart {
  std::vector<std::string> program;
  std::vector<std::string> variables;
  bool with_stdin = false;
};
// kNotFound or kPermissionDenied if the program cannot be started.
StatusOr<Child> start_child(const ChildStart& start, const Guard& guard);
// True if it has ended; then its group is dead, too, and it is reaped.
bool reap_child(Child& child, const Guard& guard, Ending& ending);
void kill_group(const Child& child, int signal);
// Some bytes of a non-blocking descriptor; closes it (and makes it -1) at its end. False if there was nothing.
bool read_some(int& fd, std::string& bytes);

class LocalCrew final : public Crew {
 public:
  LocalCrew(std::string host, const Guard& guard, CrewListener& listener)
      : Crew(std::move(host)), guard_(guard), listener_(listener) {}
  ~LocalCrew() override;
  void start(const std::vector<RankStart>& ranks, const std::vector<std::string>& program) override;
  void add_descriptors(std::vector<pollfd>& polled, bool room) const override;
  void ready(int fd) override;
  void reap() override;
  void signal(int number) override;
  void abandon() override {}
  bool done() const override;

 private:
  struct Member {
    Rank rank;
    Child child;
  };
  void read(Member& member, int& fd, Stream stream);
  void look_whether_it_stands(const Member& member);
  std::string state_path(Rank rank) const;
  const Guard& guard_;
  CrewListener& listener_;
  std::vector<Member> members_;
};

}  // namespace troupe::tool
