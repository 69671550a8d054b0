// Where a store or a relay is entered: its listeners, its connections, and the greeting in which both sides prove that they know the
// secret (STORE.md). Only who has done so is told to the owner.
//
// Threads: one, the owner's, calls everything but wake() and refused(), which any may; the owner is called within round().
// Owns: the listeners and all connections.
// Errors: a connection that has not proved itself within `strangers_have`, or says anything else, is closed, counted and logged once an
//         address. Limits: kStrangersMost of them are open, others wait in the listen queue; store_protocol.h.
// Invariants: a caller lives until the end of the round in which it was dropped; who does not take what he is sent is not read.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "comm/join/frame.h"
#include "comm/join/store.h"
#include "comm/join/store_protocol.h"

namespace troupe::comm {

class StoreDoor {
 public:
  struct Hello {
    protocol::Role role = protocol::Role::kRank;
    Rank rank{-1};  // a relay's: of the process that runs it, -1 if that is none of the ranks
    int world = 0;
    std::string build, host;  // host: a relay's
  };
  struct Caller {
    enum class Stage { kStranger, kChallenged, kMember, kClosed };
    int fd = -1;
    std::string address;  // of the peer, for people
    Stage stage = Stage::kStranger;
    Hello hello;  // true when it is a member
    bool adopted = false;

    Deadline deadline{};  // of a stranger
    FrameSplitter splitter{protocol::kStrangerFrameBytesMost};
    std::string hello_frame, nonce;
    std::deque<std::shared_ptr<const std::string>> out;
    std::size_t out_sent = 0;  // of the first

    bool stranger() const { return stage == Stage::kStranger || stage == Stage::kChallenged; }
    bool relay() const { return hello.role == protocol::Role::kRelay; }
  };
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void on_proved(Caller& caller) = 0;  // it is a member now, if the owner does not turn it away
    virtual void on_frame(Caller& caller, const std::string& frame) = 0;
    virtual void on_gone(Caller& caller, protocol::Parting how) = 0;  // a member, which is dropped then
  };
  struct Options {
    std::string name;  // of the owner, for the log
    std::string secret;
    std::chrono::milliseconds strangers_have{5000};
  };

  StoreDoor(Options options, std::vector<int> listeners, Owner& owner);
  ~StoreDoor();
  StoreDoor(const StoreDoor&) = delete;
  StoreDoor& operator=(const StoreDoor&) = delete;

  // Waits until something happens, wake() or `until`, and sees to it.
  void round(Deadline until);
  void wake() const;
  // A connection that the owner has made and that has greeted is a member, too.
  Caller& adopt(int fd, FrameSplitter splitter);

  static std::shared_ptr<const std::string> bytes_of(FrameWriter& writer) {
    return std::make_shared<const std::string>(std::move(writer).finish());
  }
  void send(Caller& caller, std::shared_ptr<const std::string> bytes);
  void send(Caller& caller, FrameWriter& writer) { send(caller, bytes_of(writer)); }
  // Says why, with kRefused, and drops it.
  void turn_away(Caller& caller, absl::StatusCode code, const std::string& why);
  // Counted and logged as a stranger's.
  void refuse(Caller& caller, const std::string& why);
  void count_refused() { ++refused_; }
  void drop(Caller& caller);
  // Members other than adopted ones are not read while this holds.
  void pause(bool paused);
  std::int64_t refused() const { return refused_; }

 private:
  void watch(int fd, std::uint32_t events, int operation) const;
  void accept_all(int listener);
  void take(Caller& caller, std::uint32_t events);
  void read_or_write(Caller& caller) const;
  void flush(Caller& caller);
  void handle(Caller& caller, const std::string& frame);
  void hello(Caller& caller, const std::string& frame);
  void proof(Caller& caller, const std::string& frame);
  void gone(Caller& caller, protocol::Parting how);
  Deadline next_deadline() const;
  void put_out_the_late();
  void bury();

  const Options options_;
  const std::vector<int> listeners_;
  Owner& owner_;
  const int epoll_, wake_;
  std::map<int, std::unique_ptr<Caller>> callers_;  // by descriptor
  std::vector<int> dead_;
  int strangers_ = 0;
  bool listening_ = true, paused_ = false;
  std::set<std::string> logged_;
  std::atomic<std::int64_t> refused_{0};
};

}  // namespace troupe::comm
