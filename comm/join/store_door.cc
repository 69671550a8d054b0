#include "comm/join/store_door.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/join/socket.h"
#include "runtime/base/log.h"

namespace troupe::comm {
namespace {

constexpr std::size_t kAddressesLoggedMost = 1024;

}  // namespace

StoreDoor::StoreDoor(Options options, std::vector<int> listeners, Owner& owner)
    : options_(std::move(options)),
      listeners_(std::move(listeners)),
      owner_(owner),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  watch(wake_, EPOLLIN, EPOLL_CTL_ADD);
  for (const int listener : listeners_) watch(listener, EPOLLIN, EPOLL_CTL_ADD);
}

StoreDoor::~StoreDoor() {
  for (auto& [fd, caller] : callers_) close(fd);
  for (const int listener : listeners_) close(listener);
  close(epoll_);
  close(wake_);
}

void StoreDoor::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof one);
}

void StoreDoor::watch(int fd, std::uint32_t events, int operation) const {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  epoll_ctl(epoll_, operation, fd, &event);
}

void StoreDoor::round(Deadline until) {
  const Deadline next = std::min(until, next_deadline());
  int timeout = -1;
  if (next != Deadline::max()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - std::chrono::steady_clock::now()).count();
    timeout = static_cast<int>(std::clamp<std::int64_t>(left, 0, 60 * 1000));
  }
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), timeout);
  for (int i = 0; i < count; ++i) {
    const auto& event = events[static_cast<std::size_t>(i)];
    if (event.data.fd == wake_) {
      std::uint64_t times = 0;
      [[maybe_unused]] const ssize_t got = read(wake_, &times, sizeof times);
    } else if (std::ranges::find(listeners_, event.data.fd) != listeners_.end()) {
      accept_all(event.data.fd);
    } else if (const auto found = callers_.find(event.data.fd); found != callers_.end()) {
      take(*found->second, event.events);
    }
  }
  put_out_the_late();
  bury();
}

// ---- connections ----

void StoreDoor::accept_all(int listener) {
  while (strangers_ < protocol::kStrangersMost) {
    auto caller = std::make_unique<Caller>();
    const int fd = caller->fd = accept_one(listener, caller->address);
    if (fd < 0) return;
    caller->deadline = std::chrono::steady_clock::now() + options_.strangers_have;
    watch(fd, EPOLLIN, EPOLL_CTL_ADD);
    callers_.emplace(fd, std::move(caller));
    ++strangers_;
  }
  for (const int each : listeners_) watch(each, 0, EPOLL_CTL_MOD);  // until one of them has gone
  listening_ = false;
}

StoreDoor::Caller& StoreDoor::adopt(int fd, FrameSplitter splitter) {
  auto caller = std::make_unique<Caller>();
  caller->fd = fd;
  caller->stage = Caller::Stage::kMember;
  caller->adopted = true;
  caller->splitter = std::move(splitter);
  caller->splitter.set_most(protocol::kRelayFrameBytesMost);
  watch(fd, EPOLLIN, EPOLL_CTL_ADD);
  return *callers_.emplace(fd, std::move(caller)).first->second;
}

void StoreDoor::take(Caller& caller, std::uint32_t events) {
  if (events & EPOLLOUT) flush(caller);
  if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)) || caller.stage == Caller::Stage::kClosed) return;
  std::array<char, 1 << 16> part;
  const ssize_t count = recv(caller.fd, part.data(), part.size(), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    return caller.stranger() ? refuse(caller, "it left before it had proved that it knows the secret") : gone(caller, protocol::Parting::kClosed);
  }
  caller.splitter.append({part.data(), static_cast<std::size_t>(count)});
  while (caller.stage != Caller::Stage::kClosed) {
    auto frame = caller.splitter.next();
    if (!frame.ok()) {
      if (caller.stranger()) return refuse(caller, std::string(frame.status().message()));
      ++refused_;
      return gone(caller, protocol::Parting::kNonsense);
    }
    if (!*frame) return;
    handle(caller, **frame);
  }
}

void StoreDoor::gone(Caller& caller, protocol::Parting how) {
  owner_.on_gone(caller, how);
  drop(caller);
}

void StoreDoor::refuse(Caller& caller, const std::string& why) {
  ++refused_;
  if (logged_.size() < kAddressesLoggedMost && logged_.insert(caller.address).second) {
    log_warning(absl::StrCat("the ", options_.name, " refused a connection from ", caller.address, " (", why,
                             "); others from there are only counted"));
  }
  drop(caller);
}

void StoreDoor::turn_away(Caller& caller, absl::StatusCode code, const std::string& why) {
  FrameWriter writer(protocol::kRefused);
  send(caller, writer.i32(static_cast<int>(code)).text(why));
  drop(caller);
}

void StoreDoor::drop(Caller& caller) {
  if (caller.stage == Caller::Stage::kClosed) return;
  if (caller.stranger()) --strangers_;
  caller.stage = Caller::Stage::kClosed;
  watch(caller.fd, 0, EPOLL_CTL_DEL);
  dead_.push_back(caller.fd);
}

// Closed after a round's events, so that a new connection does not get an old one's event.
void StoreDoor::bury() {
  for (const int fd : dead_) {
    close(fd);
    callers_.erase(fd);
  }
  dead_.clear();
  if (listening_ || strangers_ >= protocol::kStrangersMost) return;
  for (const int each : listeners_) watch(each, EPOLLIN, EPOLL_CTL_MOD);
  listening_ = true;
}

void StoreDoor::send(Caller& caller, std::shared_ptr<const std::string> bytes) {
  if (caller.stage == Caller::Stage::kClosed) return;
  caller.out.push_back(std::move(bytes));
  if (caller.out.size() == 1) flush(caller);
}

void StoreDoor::flush(Caller& caller) {
  while (!caller.out.empty()) {
    const auto rest = std::string_view(*caller.out.front()).substr(caller.out_sent);
    const ssize_t sent = ::send(caller.fd, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) break;
    if (sent < 0) {
      caller.out.clear();  // its end is read next
      caller.out_sent = 0;
      break;
    }
    caller.out_sent += static_cast<std::size_t>(sent);
    if (caller.out_sent < caller.out.front()->size()) continue;
    caller.out.pop_front();
    caller.out_sent = 0;
  }
  read_or_write(caller);
}

// While something is unsent nothing more is read: nobody piles up answers that he does not take. What was adopted is always read, since
// its other end may do the same.
void StoreDoor::read_or_write(Caller& caller) const {
  if (caller.stage == Caller::Stage::kClosed) return;
  const bool reads = caller.adopted || (caller.out.empty() && !(paused_ && caller.stage == Caller::Stage::kMember));
  watch(caller.fd, (caller.out.empty() ? 0u : EPOLLOUT) | (reads ? EPOLLIN : 0u), EPOLL_CTL_MOD);
}

void StoreDoor::pause(bool paused) {
  if (std::exchange(paused_, paused) == paused) return;
  for (auto& [fd, caller] : callers_) read_or_write(*caller);
}

// ---- deadlines of strangers ----

Deadline StoreDoor::next_deadline() const {
  Deadline next = Deadline::max();
  if (strangers_ == 0) return next;
  for (const auto& [fd, caller] : callers_) {
    if (caller->stranger()) next = std::min(next, caller->deadline);
  }
  return next;
}

void StoreDoor::put_out_the_late() {
  if (strangers_ == 0) return;
  const Deadline now = std::chrono::steady_clock::now();
  for (auto& [fd, caller] : callers_) {
    if (caller->stranger() && caller->deadline <= now) refuse(*caller, "it did not prove in time that it knows the secret");
  }
}

// ---- the greeting ----

void StoreDoor::handle(Caller& caller, const std::string& frame) {
  switch (caller.stage) {
    case Caller::Stage::kStranger: return hello(caller, frame);
    case Caller::Stage::kChallenged: return proof(caller, frame);
    case Caller::Stage::kMember: return owner_.on_frame(caller, frame);
    case Caller::Stage::kClosed: return;
  }
}

void StoreDoor::hello(Caller& caller, const std::string& frame) {
  FrameReader reader(frame);
  const bool ours = reader.type() == protocol::kHello && reader.raw(protocol::kMagic.size()) == protocol::kMagic;
  if (!ours) return refuse(caller, "it does not speak the store's language");
  if (const int version = reader.u16(); version != protocol::kVersion) {
    ++refused_;
    return turn_away(caller, absl::StatusCode::kFailedPrecondition,
                     absl::StrCat("it speaks version ", version, " of the protocol and the ", options_.name, ", of ", program_build(), ", version ",
                                  protocol::kVersion, ": start the same program everywhere"));
  }
  reader.raw(kNonceBytes);
  const int role = reader.u8(), rank = reader.i32(), world = reader.i32();
  Hello& said = caller.hello;
  said = {.role = role == 0 ? protocol::Role::kRank : protocol::Role::kRelay, .rank = Rank{rank}, .world = world};
  said.build = reader.text();
  said.host = reader.text();
  const bool sound = role <= 1 && rank >= (role == 1 ? -1 : 0) && rank < protocol::kRankMost && world >= 0 && world < protocol::kRankMost;
  if (!reader.ended_well() || !sound || said.build.size() > protocol::kBuildBytesMost || said.host.size() > protocol::kHostBytesMost)
    return refuse(caller, "its hello is torn");
  caller.hello_frame = frame;
  caller.nonce = random_bytes(kNonceBytes);
  caller.stage = Caller::Stage::kChallenged;
  FrameWriter writer(protocol::kChallenge);
  send(caller,
       writer.u16(protocol::kVersion).raw(caller.nonce).raw(protocol::store_proof(options_.secret, frame, caller.nonce)));
}

void StoreDoor::proof(Caller& caller, const std::string& frame) {
  FrameReader reader(frame);
  const std::string_view given = reader.raw(32);
  if (reader.type() != protocol::kProof || !reader.ended_well() ||
      !same_proof(given, protocol::client_proof(options_.secret, caller.hello_frame, caller.nonce))) {
    return refuse(caller, "it does not know the secret");
  }
  --strangers_;
  caller.stage = Caller::Stage::kMember;
  caller.splitter.set_most(caller.relay() ? protocol::kRelayFrameBytesMost : kFrameBytesMost);
  settle(caller.fd);
  owner_.on_proved(caller);
}

}  // namespace troupe::comm
