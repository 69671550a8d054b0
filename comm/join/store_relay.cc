#include "comm/join/store_relay.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "comm/join/socket.h"
#include "comm/join/store_door.h"
#include "comm/join/store_protocol.h"

namespace troupe::comm {
namespace {

using namespace std::chrono_literals;
using Caller = StoreDoor::Caller;
using protocol::Parting;

constexpr std::size_t kUnsentMost = 4 << 20;  // towards the store; then no rank is read

}  // namespace

std::string relay_name(const std::string& secret) {
  return absl::StrCat("troupe-", absl::BytesToHexString(proof_of(secret, "troupe relay's name")).substr(0, 32));
}

class StoreRelay::Loop final : public StoreDoor::Owner {
 public:
  Loop(Options options, int listener, Deadline deadline)
      : options_(std::move(options)),
        called_(absl::StrCat("the relay of host ", options_.host)),
        deadline_(deadline),
        door_({.name = called_.substr(4), .secret = options_.secret, .strangers_have = options_.strangers_have}, {listener}, *this) {
    thread_ = std::thread([this] { run(); });
  }
  ~Loop() override {
    stopping_ = true;
    finding_.request("the relay ends");
    door_.wake();
    thread_.join();
  }
  bool wait_until_left(Deadline deadline) {
    std::unique_lock lock(mutex_);
    return left_all_.wait_until(lock, deadline, [this] { return there_ == 0; });
  }
  std::int64_t refused() const { return door_.refused(); }

 private:
  struct Behind {
    Caller* caller = nullptr;
    bool entered = false;  // the store has let it in
  };

  void run() {
    find_store();
    while (!stopping_) {
      door_.round(Deadline::max());
      door_.pause(store_ && unsent() > kUnsentMost);
      const std::lock_guard lock(mutex_);
      there_ = ranks_.size();
      if (there_ == 0) left_all_.notify_all();
    }
  }
  // Ranks wait meanwhile in the listen queue.
  void find_store() {
    const auto client = StoreClient::connect({.hosts = options_.store_hosts,
                                              .port = options_.store_port,
                                              .secret = options_.secret,
                                              .rank = options_.run_by,
                                              .world = options_.world,
                                              .build = program_build(),
                                              .relay_of = options_.host,
                                              .cancel = &finding_},
                                             deadline_);
    if (!client.ok()) return end(std::string(client.status().message()));
    auto [fd, splitter] = (*client)->release();
    store_ = &door_.adopt(fd, std::move(splitter));
  }
  std::size_t unsent() const {
    std::size_t bytes = 0;
    for (const auto& frame : store_->out) bytes += frame->size();
    return bytes;
  }

  // ---- StoreDoor::Owner ----
  void on_proved(Caller& caller) override {
    const auto& said = caller.hello;
    if (caller.relay())
      return door_.turn_away(caller, absl::StatusCode::kInvalidArgument, absl::StrCat(called_, " is none for other relays"));
    if (const auto there = ranks_.find(said.rank.value); there != ranks_.end()) {
      return door_.turn_away(caller, absl::StatusCode::kAlreadyExists,
                             absl::StrCat("there is a rank ", said.rank.value, " in this job already, from host ", options_.host));
    }
    ranks_[said.rank.value] = {.caller = &caller};
    if (!store_) return door_.send(caller, ended_);
    FrameWriter writer(protocol::kEnter);
    door_.send(*store_, writer.i32(said.rank.value).i32(said.world).text(said.build));
  }
  void on_frame(Caller& caller, const std::string& frame) override {
    if (&caller == store_) {
      if (!down(frame)) {
        on_gone(caller, Parting::kNonsense);
        door_.drop(caller);
      }
      return;
    }
    if (!store_) return;  // it has heard of the end
    if (!ranks_.at(caller.hello.rank.value).entered) {  // it speaks before it was let in
      door_.count_refused();
      on_gone(caller, Parting::kNonsense);
      return door_.drop(caller);
    }
    FrameWriter writer(protocol::kForward);
    door_.send(*store_, writer.i32(caller.hello.rank.value).raw(frame));
  }
  void on_gone(Caller& caller, Parting how) override {
    if (&caller == store_) {
      store_ = nullptr;
      return end(how == Parting::kNonsense ? "it sent what is no answer" : "it closed the connection");
    }
    ranks_.erase(caller.hello.rank.value);
    FrameWriter writer(protocol::kGone);
    if (store_) door_.send(*store_, writer.i32(caller.hello.rank.value).u8(static_cast<std::uint8_t>(how)));
  }

  // What the store says; false if it is nothing that a store says.
  bool down(const std::string& frame) {
    FrameReader reader(frame);
    if (reader.type() == protocol::kAborted) {
      FrameWriter writer(protocol::kAborted);
      const auto bytes = StoreDoor::bytes_of(writer.raw(std::string_view(frame).substr(1)));
      for (const auto& [rank, behind] : ranks_) {
        if (behind.entered) door_.send(*behind.caller, bytes);  // others hear it in answer to their entry
      }
      return true;
    }
    if (reader.type() != protocol::kDeliver) return false;
    std::vector<std::pair<int, std::uint32_t>> to;
    for (std::uint32_t count = reader.u32(); count > 0 && to.size() < static_cast<std::size_t>(options_.world); --count) {
      const int rank = reader.i32();
      to.emplace_back(rank, reader.u32());
    }
    // The rest is a frame for all of them.
    const std::size_t head = 5 + 8 * to.size();
    if (to.empty() || frame.size() <= head) return false;
    const auto type = static_cast<std::uint8_t>(frame[head]);
    const std::string rest = std::move(FrameWriter(type).raw(std::string_view(frame).substr(head + 1))).finish();
    if (protocol::has_id(type) && rest.size() < protocol::kIdAt + 4) return false;
    for (const auto& [rank, id] : to) pass_on(rank, type, protocol::has_id(type) ? protocol::with_id(rest, id) : rest);
    return true;
  }
  void pass_on(int rank, std::uint8_t type, const std::string& frame) {
    const auto found = ranks_.find(rank);
    if (found == ranks_.end()) return;  // it has gone meanwhile
    Caller& caller = *found->second.caller;
    if (type == protocol::kWelcome) {
      found->second.entered = true;
      FrameWriter writer(protocol::kWelcome);
      return door_.send(caller, writer.i32(options_.run_by.value).text(called_));
    }
    if (!found->second.entered && type != protocol::kRefused && type != protocol::kAborted) return;  // was another process's
    if (type == protocol::kAborted) found->second.entered = true;
    door_.send(caller, std::make_shared<const std::string>(frame));
    if (type != protocol::kRefused) return;
    ranks_.erase(found);
    door_.drop(caller);
  }

  // Of the job, for the ranks of this host: there is no store any more.
  void end(const std::string& why) {
    const std::string reason = absl::StrCat(called_, " has no store at ", options_.store_hosts, ":", options_.store_port, ": ", why);
    FrameWriter writer(protocol::kAborted);
    ended_ = StoreDoor::bytes_of(writer.i32(-1).u8(1).text(reason));
    for (const auto& [rank, behind] : ranks_) door_.send(*behind.caller, ended_);
  }

  // Set before the thread starts.
  const Options options_;
  const std::string called_;
  const Deadline deadline_;

  // By any thread.
  std::atomic<bool> stopping_{false};
  Cancel finding_;

  // By mutex_.
  std::mutex mutex_;
  std::condition_variable left_all_;
  std::size_t there_ = 0;

  // The loop's thread alone.
  StoreDoor door_;
  Caller* store_ = nullptr;         // null: there is none any more
  std::map<int, Behind> ranks_;
  std::shared_ptr<const std::string> ended_;  // what is said when there is no store

  std::thread thread_;
};

StatusOr<std::unique_ptr<StoreRelay>> StoreRelay::start(Options options, Deadline deadline) {
  if (options.secret.empty() || options.world < 1 || options.host.empty() || options.host.size() > protocol::kHostBytesMost)
    return absl::InvalidArgumentError("a relay needs a secret, a world of at least 1 and its host's name");
  TROUPE_ASSIGN_OR_RETURN(const int listener, listen_at_name(options.name));
  return std::unique_ptr<StoreRelay>(new StoreRelay(std::make_unique<Loop>(std::move(options), listener, deadline)));
}

StoreRelay::StoreRelay(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
StoreRelay::~StoreRelay() = default;
bool StoreRelay::wait_until_left(Deadline deadline) { return loop_->wait_until_left(deadline); }
std::int64_t StoreRelay::refused() const { return loop_->refused(); }

}  // namespace troupe::comm
