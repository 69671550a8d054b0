#include "comm/join/store_server.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "comm/join/socket.h"
#include "comm/join/store_board.h"
#include "comm/join/store_door.h"
#include "comm/join/store_members.h"
#include "comm/join/store_protocol.h"

namespace troupe::comm {

namespace {

using Caller = StoreDoor::Caller;
using protocol::Parting;

}  // namespace

class StoreServer::Loop final : public StoreDoor::Owner {
 public:
  Loop(Options options, OnCause on_cause, std::vector<int> listeners)
      : options_(std::move(options)),
        on_cause_(std::move(on_cause)),
        port_(port_of(listeners[0])),
        door_({.name = "store", .secret = options_.secret, .strangers_have = options_.strangers_have}, std::move(listeners), *this),
        members_(door_),
        board_(options_.world, [this](const auto& to, const std::string& frame) { members_.deliver(to, frame); }) {
    thread_ = std::thread([this] { run(); });
  }
  ~Loop() override {
    stopping_ = true;
    door_.wake();
    thread_.join();
  }

  int port() const { return port_; }
  void order_end(StoreCause cause) {
    {
      const std::lock_guard lock(mutex_);
      ordered_.push_back(std::move(cause));
    }
    door_.wake();
  }
  bool wait_until_left(Deadline deadline) {
    std::unique_lock lock(mutex_);
    return left_all_.wait_until(lock, deadline, [this] { return there_ == 0; });
  }
  std::int64_t refused() const { return door_.refused(); }
  int connections() const { return connections_; }
  Meeting meeting() const {
    const std::lock_guard lock(mutex_);
    return meeting_;
  }
  std::optional<StoreCause> cause() const {
    const std::lock_guard lock(mutex_);
    return cause_;
  }

 private:
  void run() {
    while (!stopping_) {
      door_.round(board_.next_deadline());
      take_orders();
      board_.expire(std::chrono::steady_clock::now());
      show();
    }
  }
  void take_orders() {
    std::vector<StoreCause> ordered;
    {
      const std::lock_guard lock(mutex_);
      ordered.swap(ordered_);
    }
    for (auto& cause : ordered) end_job(std::move(cause));
  }
  // What other threads ask for.
  void show() {
    connections_ = members_.connections();
    Meeting meeting{.waiting = board_.at_exchange(), .missing = {}};
    for (int rank = 0; rank < options_.world && !meeting.waiting.empty(); ++rank) {
      if (!board_.has_address(Rank{rank})) meeting.missing.push_back(Rank{rank});
    }
    const std::lock_guard lock(mutex_);
    meeting_ = std::move(meeting);
    there_ = members_.count();
    if (there_ == 0) left_all_.notify_all();
  }

  // ---- StoreDoor::Owner ----
  void on_proved(Caller& caller) override {
    if (!caller.relay()) return enter(caller, caller.hello.rank, caller.hello.world, caller.hello.build);
    if (caller.hello.world != options_.world || caller.hello.rank.value >= options_.world) {
      return door_.turn_away(caller, absl::StatusCode::kInvalidArgument,
                             absl::StrCat("it is of a job of ", caller.hello.world, ", and this job has ", options_.world, " ranks"));
    }
    members_.add_relay(caller);
    door_.send(caller, std::make_shared<const std::string>(welcome()));
    if (cause_) door_.send(caller, std::make_shared<const std::string>(aborted()));
  }
  void on_frame(Caller& caller, const std::string& frame) override {
    FrameReader reader(frame);
    if (!caller.relay()) return request(caller, caller.hello.rank, reader);
    if (relayed(caller, frame, reader)) return;
    door_.count_refused();
    on_gone(caller, Parting::kNonsense);
    door_.drop(caller);
  }
  void on_gone(Caller& caller, Parting how) override {
    if (caller.relay()) relay_gone(caller, how);
    else gone(caller.hello.rank, how);
  }

  // What a relay says of one of its ranks; false if it is nothing that a relay says.
  bool relayed(Caller& relay, const std::string& frame, FrameReader& reader) {
    const Rank rank{reader.i32()};
    const StoreMembers::Member* member = members_.find(rank);
    const bool known = member && member->by == &relay;  // otherwise it was turned away, or is another host's
    if (reader.type() == protocol::kEnter) {
      const int world = reader.i32();
      const std::string build(reader.text());
      if (!reader.ended_well() || rank.value < 0 || known) return false;
      enter(relay, rank, world, build);
      return true;
    }
    if (reader.type() == protocol::kGone) {
      const auto how = reader.u8() == 0 ? Parting::kClosed : Parting::kNonsense;
      if (known && reader.ended_well()) gone(rank, how);
      return reader.ended_well();
    }
    const std::string_view inside = std::string_view(frame).substr(std::min<std::size_t>(frame.size(), 5));
    if (reader.type() != protocol::kForward || inside.empty()) return false;
    FrameReader what(inside);
    if (known) request(relay, rank, what);
    return true;
  }

  // ---- members ----
  void enter(Caller& by, Rank rank, int world, const std::string& build) {
    if (world != options_.world || rank.value >= options_.world) {
      return members_.turn_away(by, rank, absl::StatusCode::kInvalidArgument,
                                absl::StrCat("it says rank ", rank.value, " of ", world, ", and this job has ", options_.world, " ranks"));
    }
    if (const auto* there = members_.find(rank)) {
      return members_.turn_away(
          by, rank, absl::StatusCode::kAlreadyExists,
          absl::StrCat("there is a rank ", rank.value, " in this job already, from ", StoreMembers::text_of(*there->by)));
    }
    if (build_.empty()) {
      build_ = build;
      build_from_ = rank;
    } else if (build_ != build) {
      const std::string why = absl::StrCat("rank ", rank.value, " runs ", build, ", rank ", build_from_.value, " runs ", build_,
                                           ": start the same program everywhere");
      members_.turn_away(by, rank, absl::StatusCode::kFailedPrecondition, why);
      return end_job({rank, why});
    }
    members_.add(rank, by);
    members_.reply(by, rank, cause_ ? aborted() : welcome());
  }
  void request(Caller& by, Rank rank, FrameReader& reader) {
    if (members_.find(rank)->left) {
      if (by.relay()) return door_.count_refused();
      members_.remove(rank);
      return door_.refuse(by, "it spoke after its goodbye");
    }
    if (reader.type() != protocol::kGoodbye && reader.type() != protocol::kAbort) {
      if (!board_.take(rank, reader, std::chrono::steady_clock::now())) no_request(by, rank);
      return;
    }
    const std::uint32_t id = reader.u32();
    reader.u32();
    const bool aborts = reader.type() == protocol::kAbort;
    const Rank first = aborts ? Rank{reader.i32()} : rank;
    const std::string said(aborts ? reader.text().substr(0, protocol::kReasonBytesMost) : std::string_view());
    if (!reader.ended_well() || first.value < -1 || first.value >= options_.world) return no_request(by, rank);
    board_.give_up(rank);
    if (!aborts) {
      board_.answer(rank, id, ok());
      members_.leave(rank);
    } else if (first != rank) {
      end_job({first, absl::StrCat(said, " (heard from rank ", rank.value, ")"), true});
    } else {
      end_job({first, absl::StrCat("rank ", first.value, " ended the job: ", said)});
    }
  }
  // Bytes that are none of ours: the member is lost.
  void no_request(Caller& by, Rank rank) {
    door_.count_refused();
    gone(rank, Parting::kNonsense);
    if (!by.relay()) door_.drop(by);
  }
  void gone(Rank rank, Parting how) {
    const auto* found = members_.find(rank);
    if (!found) return;
    const StoreMembers::Member member = *found;
    board_.give_up(rank);
    if (member.left) return members_.remove(rank);
    const std::string to = member.by->relay() ? absl::StrCat("relay of host ", member.by->hello.host) : "store";
    const std::string end =
        how == Parting::kNonsense ? "it sent what is no request" : absl::StrCat("its connection to the ", to, " closed without a goodbye");
    end_job({rank, absl::StrCat("rank ", rank.value, " is gone: ", end), true});  // it may still hear why
    members_.remove(rank);
  }
  void relay_gone(Caller& relay, Parting how) {
    const auto [behind, in_order] = members_.remove_relay(relay);
    for (const int rank : behind) board_.give_up(Rank{rank});
    if (in_order && how == Parting::kClosed) return;
    const Rank runs = relay.hello.rank, lost = runs.value >= 0 || behind.empty() ? runs : Rank{behind.front()};
    std::string why =
        absl::StrCat("the relay of ", StoreMembers::text_of(relay),
                     how == Parting::kNonsense ? " sent what is no request" : " closed its connection to the store without a goodbye");
    if (!behind.empty()) absl::StrAppend(&why, ", with ", behind.size() == 1 ? "rank " : "ranks ", absl::StrJoin(behind, ", "));
    end_job({lost, lost.value < 0 ? why : absl::StrCat("rank ", lost.value, " is gone: ", why), true});
  }

  // The first cause counts.
  void end_job(StoreCause cause) {
    {
      const std::lock_guard lock(mutex_);
      if (cause_) return;
      cause_ = std::move(cause);
    }
    if (on_cause_) on_cause_(*cause_);  // before any rank can end because of it
    board_.give_up_all();
    members_.tell_all(aborted());
  }
  std::string aborted() const {
    return std::move(FrameWriter(protocol::kAborted).i32(cause_->rank.value).u8(cause_->lost).text(cause_->reason)).finish();
  }
  // Nobody is between.
  static std::string welcome() { return std::move(FrameWriter(protocol::kWelcome).i32(-1).text("")).finish(); }

  // Set before the thread starts.
  const Options options_;
  OnCause on_cause_;
  const int port_;

  // By any thread.
  std::atomic<bool> stopping_{false};
  std::atomic<int> connections_{0};

  // By mutex_: written by the loop's thread only, which therefore reads cause_ without it.
  mutable std::mutex mutex_;
  std::condition_variable left_all_;
  std::vector<StoreCause> ordered_;  // written by any
  std::size_t there_ = 0;
  Meeting meeting_;
  std::optional<StoreCause> cause_;

  // The loop's thread alone.
  StoreDoor door_;
  StoreMembers members_;
  std::string build_;
  Rank build_from_;
  StoreBoard board_;

  std::thread thread_;
};

StatusOr<std::unique_ptr<StoreServer>> StoreServer::start(Options options, OnCause on_cause) {
  if (options.secret.empty() || options.world < 1)
    return absl::InvalidArgumentError("a store needs a secret and a world of at least 1");
  std::vector<int> listeners;
  TROUPE_ASSIGN_OR_RETURN(listeners.emplace_back(), listen_at(options.port, options.loopback_only));
  if (!options.local_name.empty()) {
    const auto local = listen_at_name(options.local_name);
    // Where two "hosts" of the job are one, the other's relay may be there already, and serves both.
    if (!local.ok() && !absl::IsAlreadyExists(local.status())) {
      close(listeners[0]);
      return local.status();
    }
    if (local.ok()) listeners.push_back(*local);
  }
  return std::unique_ptr<StoreServer>(new StoreServer(std::make_unique<Loop>(std::move(options), std::move(on_cause), std::move(listeners))));
}

StoreServer::StoreServer(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
StoreServer::~StoreServer() = default;
int StoreServer::port() const { return loop_->port(); }
void StoreServer::abort(std::string reason) { loop_->order_end({Rank{-1}, std::move(reason)}); }
void StoreServer::lose(Rank rank, std::string reason) { loop_->order_end({rank, std::move(reason), true}); }
StoreServer::Meeting StoreServer::meeting() const { return loop_->meeting(); }
bool StoreServer::wait_until_left(Deadline deadline) { return loop_->wait_until_left(deadline); }
std::int64_t StoreServer::refused() const { return loop_->refused(); }
int StoreServer::connections() const { return loop_->connections(); }
std::optional<StoreCause> StoreServer::cause() const { return loop_->cause(); }

}  // namespace troupe::comm
