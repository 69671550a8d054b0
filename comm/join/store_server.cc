#include "comm/join/store_server.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/join/socket.h"
#include "comm/join/store_board.h"
#include "comm/join/store_protocol.h"
#include "runtime/base/log.h"

namespace troupe::comm {
namespace {

using Bytes = StoreBoard::Bytes;

constexpr std::size_t kAddressesLoggedMost = 1024;

struct Connection {
  enum class Stage { kStranger, kChallenged, kMember, kLeft, kClosed };
  int fd = -1;
  std::string address;  // of the peer, for the log
  Stage stage = Stage::kStranger;
  Deadline deadline;  // of a stranger
  FrameSplitter splitter{protocol::kStrangerFrameBytesMost};
  std::string hello, nonce;
  Rank rank{-1};
  int world = 0;
  std::string build;
  std::deque<Bytes> out;
  std::size_t out_sent = 0;  // of the first

  bool stranger() const { return stage == Stage::kStranger || stage == Stage::kChallenged; }
};

}  // namespace

class StoreServer::Loop {
 public:
  Loop(Options options, OnCause on_cause, int listener)
      : options_(std::move(options)),
        on_cause_(std::move(on_cause)),
        listener_(listener),
        epoll_(epoll_create1(EPOLL_CLOEXEC)),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        board_(options_.world, [this](Rank rank, Bytes bytes) { send(*ranks_.at(rank.value), std::move(bytes)); }) {
    watch(wake_, EPOLLIN, EPOLL_CTL_ADD);
    watch(listener_, EPOLLIN, EPOLL_CTL_ADD);
    thread_ = std::thread([this] { run(); });
  }
  ~Loop() {
    stopping_ = true;
    wake();
    thread_.join();
    for (auto& [fd, connection] : connections_) close(fd);
    close(listener_);
    close(epoll_);
    close(wake_);
  }

  int port() const { return port_of(listener_); }
  void order_abort(std::string reason) {
    {
      const std::lock_guard lock(mutex_);
      ordered_.push_back(std::move(reason));
    }
    wake();
  }
  bool wait_until_left(Deadline deadline) {
    std::unique_lock lock(mutex_);
    return left_.wait_until(lock, deadline, [this] { return members_ == 0; });
  }
  std::int64_t refused() const { return refused_; }
  std::optional<StoreCause> cause() const {
    const std::lock_guard lock(mutex_);
    return cause_;
  }

 private:
  void run() {
    std::array<epoll_event, 64> events;
    while (!stopping_) {
      const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), until_next_deadline_ms());
      for (int i = 0; i < count; ++i) {
        const auto& event = events[static_cast<std::size_t>(i)];
        if (event.data.fd == wake_) take_orders();
        else if (event.data.fd == listener_) accept_all();
        else if (const auto found = connections_.find(event.data.fd); found != connections_.end())
          take(*found->second, event.events);
      }
      expire();
      bury();
    }
  }
  void wake() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof one);
  }
  void take_orders() {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(wake_, &count, sizeof count);
    std::vector<std::string> ordered;
    {
      const std::lock_guard lock(mutex_);
      ordered.swap(ordered_);
    }
    for (auto& reason : ordered) end_job({Rank{-1}, std::move(reason)});
  }
  void watch(int fd, std::uint32_t events, int operation) const {
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    epoll_ctl(epoll_, operation, fd, &event);
  }

  // Connections.
  void accept_all() {
    while (strangers_ < protocol::kStrangersMost) {
      auto connection = std::make_unique<Connection>();
      const int fd = connection->fd = accept_one(listener_, connection->address);
      if (fd < 0) return;
      connection->deadline = std::chrono::steady_clock::now() + options_.strangers_have;
      watch(fd, EPOLLIN, EPOLL_CTL_ADD);
      connections_.emplace(fd, std::move(connection));
      ++strangers_;
    }
    watch(listener_, 0, EPOLL_CTL_MOD);  // until one of them has gone
    listening_ = false;
  }
  void take(Connection& connection, std::uint32_t events) {
    if (events & EPOLLOUT) flush(connection);
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)) || connection.stage == Connection::Stage::kClosed) return;
    std::array<char, 1 << 16> part;
    const ssize_t count = recv(connection.fd, part.data(), part.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) return closed_by_peer(connection);
    connection.splitter.append({part.data(), static_cast<std::size_t>(count)});
    while (connection.stage != Connection::Stage::kClosed) {
      auto frame = connection.splitter.next();
      if (!frame.ok()) return refuse(connection, std::string(frame.status().message()));
      if (!*frame) return;
      handle(connection, **frame);
    }
  }
  // Bytes that are none of ours: a stranger goes, and a member is lost.
  void refuse(Connection& connection, const std::string& why) {
    ++refused_;
    if (connection.stage == Connection::Stage::kMember) {
      lost(connection, "it sent what is no request");
    } else if (logged_.size() < kAddressesLoggedMost && logged_.insert(connection.address).second) {
      log_warning(absl::StrCat("the store refused a connection from ", connection.address, " (", why,
                               "); others from there are only counted"));
    }
    drop(connection);
  }
  // One of ours that may not join; it is told why.
  void turn_away(Connection& connection, absl::StatusCode code, const std::string& why) {
    FrameWriter writer(protocol::kRefused);
    send(connection, StoreBoard::bytes_of(writer.i32(static_cast<int>(code)).text(why)));
    drop(connection);
  }
  void closed_by_peer(Connection& connection) {
    if (connection.stranger()) return refuse(connection, "it left before it had proved that it knows the secret");
    if (connection.stage == Connection::Stage::kMember) lost(connection, "its connection to the store closed without a goodbye");
    drop(connection);
  }
  void lost(const Connection& connection, const std::string& how) {
    end_job({connection.rank, absl::StrCat("rank ", connection.rank.value, " is gone: ", how), true});
  }
  void drop(Connection& connection) {
    if (connection.stage == Connection::Stage::kClosed) return;
    if (connection.stranger()) {
      --strangers_;
    } else {
      board_.give_up(connection.rank);
      ranks_.erase(connection.rank.value);
    }
    connection.stage = Connection::Stage::kClosed;
    watch(connection.fd, 0, EPOLL_CTL_DEL);
    dead_.push_back(connection.fd);
  }
  // Closed after a round's events, so that a new connection does not get an old one's event.
  void bury() {
    for (const int fd : dead_) {
      close(fd);
      connections_.erase(fd);
    }
    dead_.clear();
    if (!listening_ && strangers_ < protocol::kStrangersMost) {
      watch(listener_, EPOLLIN, EPOLL_CTL_MOD);
      listening_ = true;
    }
    const std::lock_guard lock(mutex_);
    members_ = ranks_.size();
    if (members_ == 0) left_.notify_all();
  }
  void send(Connection& connection, Bytes bytes) {
    connection.out.push_back(std::move(bytes));
    if (connection.out.size() == 1) flush(connection);
  }
  // While something is unsent nothing more is read: nobody piles up answers that he does not take.
  void flush(Connection& connection) {
    while (!connection.out.empty()) {
      const auto rest = std::string_view(*connection.out.front()).substr(connection.out_sent);
      const ssize_t sent = ::send(connection.fd, rest.data(), rest.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) {
        if (errno != EAGAIN) connection.out.clear();  // its end is read next
        else watch(connection.fd, EPOLLOUT, EPOLL_CTL_MOD);
        return;
      }
      connection.out_sent += static_cast<std::size_t>(sent);
      if (connection.out_sent < connection.out.front()->size()) continue;
      connection.out.pop_front();
      connection.out_sent = 0;
    }
    if (connection.stage != Connection::Stage::kClosed) watch(connection.fd, EPOLLIN, EPOLL_CTL_MOD);
  }

  // Deadlines.
  int until_next_deadline_ms() const {
    Deadline next = board_.next_deadline();
    if (strangers_ > 0) {
      for (const auto& [fd, connection] : connections_) {
        if (connection->stranger()) next = std::min(next, connection->deadline);
      }
    }
    if (next == Deadline::max()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - std::chrono::steady_clock::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60 * 1000));
  }
  void expire() {
    const Deadline now = std::chrono::steady_clock::now();
    board_.expire(now);
    if (strangers_ == 0) return;
    for (auto& [fd, connection] : connections_) {
      if (connection->stranger() && connection->deadline <= now)
        refuse(*connection, "it did not prove in time that it knows the secret");
    }
  }

  // Frames.
  void handle(Connection& connection, const std::string& frame) {
    FrameReader reader(frame);
    switch (connection.stage) {
      case Connection::Stage::kStranger: return hello(connection, frame, reader);
      case Connection::Stage::kChallenged: return proof(connection, reader);
      case Connection::Stage::kMember: return request(connection, reader);
      case Connection::Stage::kLeft: return refuse(connection, "it spoke after its goodbye");
      case Connection::Stage::kClosed: return;
    }
  }
  void hello(Connection& connection, const std::string& frame, FrameReader& reader) {
    const bool ours = reader.type() == protocol::kHello && reader.raw(protocol::kMagic.size()) == protocol::kMagic;
    if (!ours) return refuse(connection, "it does not speak the store's language");
    if (const int version = reader.u16(); version != protocol::kVersion) {
      ++refused_;
      return turn_away(connection, absl::StatusCode::kFailedPrecondition,
                       absl::StrCat("it speaks version ", version, " of the protocol and the store, of ", program_build(),
                                    ", version ", protocol::kVersion, ": start the same program everywhere"));
    }
    reader.raw(kNonceBytes);
    const std::uint32_t rank = reader.u32(), world = reader.u32();
    connection.build = reader.text();
    if (!reader.ended_well() || rank >= static_cast<std::uint32_t>(1) << 30 || world >= static_cast<std::uint32_t>(1) << 30 ||
        connection.build.size() > protocol::kBuildBytesMost) {
      return refuse(connection, "its hello is torn");
    }
    connection.rank = Rank{static_cast<int>(rank)};
    connection.world = static_cast<int>(world);
    connection.hello = frame;
    connection.nonce = random_bytes(kNonceBytes);
    connection.stage = Connection::Stage::kChallenged;
    FrameWriter writer(protocol::kChallenge);
    send(connection, StoreBoard::bytes_of(writer.u16(protocol::kVersion)
                                  .raw(connection.nonce)
                                  .raw(protocol::store_proof(options_.secret, frame, connection.nonce))));
  }
  void proof(Connection& connection, FrameReader& reader) {
    const std::string_view given = reader.raw(32);
    if (reader.type() != protocol::kProof || !reader.ended_well() ||
        !same_proof(given, protocol::client_proof(options_.secret, connection.hello, connection.nonce))) {
      return refuse(connection, "it does not know the secret");
    }
    const int rank = connection.rank.value;
    if (connection.world != options_.world || rank >= options_.world) {
      return turn_away(
          connection, absl::StatusCode::kInvalidArgument,
          absl::StrCat("it says rank ", rank, " of ", connection.world, ", and this job has ", options_.world, " ranks"));
    }
    if (ranks_.contains(rank)) {
      return turn_away(connection, absl::StatusCode::kAlreadyExists,
                       absl::StrCat("there is a rank ", rank, " in this job already, from ", ranks_[rank]->address));
    }
    if (build_.empty()) {
      build_ = connection.build;
      build_from_ = connection.rank;
    } else if (build_ != connection.build) {
      const std::string why = absl::StrCat("rank ", rank, " runs ", connection.build, ", rank ", build_from_.value, " runs ",
                                           build_, ": start the same program everywhere");
      turn_away(connection, absl::StatusCode::kFailedPrecondition, why);
      return end_job({Rank{rank}, why});
    }
    --strangers_;
    connection.stage = Connection::Stage::kMember;
    connection.splitter.set_most(kFrameBytesMost);
    settle(connection.fd);
    ranks_[rank] = &connection;
    if (cause_) return send(connection, aborted_frame());
    FrameWriter writer(protocol::kWelcome);
    send(connection, StoreBoard::bytes_of(writer));
  }
  void request(Connection& connection, FrameReader& reader) {
    if (reader.type() == protocol::kGoodbye || reader.type() == protocol::kAbort) {
      const std::uint32_t id = reader.u32();
      reader.u32();
      const Rank first = reader.type() == protocol::kAbort ? Rank{reader.i32()} : connection.rank;
      const std::string reason(reader.type() == protocol::kAbort ? reader.text() : std::string_view());
      if (!reader.ended_well() || first.value < -1 || first.value >= options_.world) return refuse(connection, "");
      board_.give_up(connection.rank);
      if (reader.type() == protocol::kAbort) {
        const auto said = reason.substr(0, protocol::kReasonBytesMost);
        if (first != connection.rank) return end_job({first, absl::StrCat(said, " (heard from rank ", connection.rank.value, ")"), true});
        return end_job({first, absl::StrCat("rank ", first.value, " ended the job: ", said)});
      }
      board_.answer(connection.rank, id, ok());
      connection.stage = Connection::Stage::kLeft;
    } else if (!board_.take(connection.rank, reader, std::chrono::steady_clock::now())) {
      refuse(connection, "");
    }
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
    const Bytes frame = aborted_frame();
    for (auto& [fd, connection] : connections_) {
      if (connection->stage == Connection::Stage::kMember) send(*connection, frame);
    }
  }
  Bytes aborted_frame() const {
    FrameWriter writer(protocol::kAborted);
    return StoreBoard::bytes_of(writer.i32(cause_->rank.value).u8(cause_->lost).text(cause_->reason));
  }

  // Set before the thread starts.
  const Options options_;
  OnCause on_cause_;
  const int listener_, epoll_, wake_;

  // By any thread.
  std::atomic<bool> stopping_{false};
  std::atomic<std::int64_t> refused_{0};

  // By mutex_: written by the loop's thread only, which therefore reads cause_ without it.
  mutable std::mutex mutex_;
  std::condition_variable left_;
  std::vector<std::string> ordered_;  // reasons of abort(); written by any
  std::size_t members_ = 0;
  std::optional<StoreCause> cause_;

  // The loop's thread alone.
  std::map<int, std::unique_ptr<Connection>> connections_;  // by descriptor
  std::unordered_map<int, Connection*> ranks_;              // members, and who left but has not closed
  std::vector<int> dead_;
  int strangers_ = 0;
  bool listening_ = true;
  std::set<std::string> logged_;
  std::string build_;
  Rank build_from_;
  StoreBoard board_;

  std::thread thread_;
};

StatusOr<std::unique_ptr<StoreServer>> StoreServer::start(Options options, OnCause on_cause) {
  if (options.secret.empty() || options.world < 1)
    return absl::InvalidArgumentError("a store needs a secret and a world of at least 1");
  TROUPE_ASSIGN_OR_RETURN(const int listener, listen_at(options.port, options.loopback_only));
  return std::unique_ptr<StoreServer>(new StoreServer(std::make_unique<Loop>(std::move(options), std::move(on_cause), listener)));
}

StoreServer::StoreServer(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
StoreServer::~StoreServer() = default;
int StoreServer::port() const { return loop_->port(); }
void StoreServer::abort(std::string reason) { loop_->order_abort(std::move(reason)); }
bool StoreServer::wait_until_left(Deadline deadline) { return loop_->wait_until_left(deadline); }
std::int64_t StoreServer::refused() const { return loop_->refused(); }
std::optional<StoreCause> StoreServer::cause() const { return loop_->cause(); }

}  // namespace troupe::comm
