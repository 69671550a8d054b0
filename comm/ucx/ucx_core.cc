#include "comm/ucx/ucx_core.h"

#include <poll.h>

#include <algorithm>
#include <ctime>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/check.h"
#include "runtime/base/first_cause.h"
#include "runtime/base/log.h"

namespace troupe::comm {
namespace {

constexpr std::int64_t kCloseNs = 1'000'000'000;  // how long a failed peer's frames may stay open

constexpr std::int64_t kSleepMostNs = 50'000'000;

std::int64_t ns(std::chrono::nanoseconds duration) { return duration.count(); }

// FNV-1a over all addresses and their lengths, folded. In each address are random numbers that UCX has drawn for its worker.
std::uint32_t incarnation_of(const std::vector<std::string>& addresses) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&hash](std::uint64_t word) { hash = (hash ^ word) * 0x100000001b3u; };
  for (const auto& address : addresses) {
    add(address.size());
    for (const char c : address) add(static_cast<unsigned char>(c));
  }
  return static_cast<std::uint32_t>(hash ^ hash >> 32);
}

Status down(const Peer& peer, const std::string& why) {
  return due_to(peer.rank, absl::StrCat("rank ", peer.rank.value, " is down: ", why));
}

}  // namespace

UcxCore::UcxCore(const UcxOptions& options, UcxWorkers workers, std::shared_ptr<Inbox> inbox)
    : options_(options),
      workers_(std::move(workers)),
      inbox_(std::move(inbox)),
      reader_{options.job, 0, options.rank, options.world},
      peers_(static_cast<std::size_t>(options.world)),
      pulse_(options.world, ns(options.heartbeat_timeout), ns(options.first_contact_timeout)) {
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    peers_[i].rank = Rank{static_cast<std::int32_t>(i)};
    peers_[i].core = this;
  }
}

UcxCore::~UcxCore() { shut_down(); }

// The length of the first, as a line of text, then both.
std::string UcxCore::address() const {
  return absl::StrCat(workers_[0]->address().size(), "\n", workers_[0]->address(), workers_[1]->address());
}

// What cannot be read leaves a peer without addresses: it is down at the first contact.
void UcxCore::set_peers(std::vector<std::string> addresses) {
  reader_.incarnation = incarnation_of(addresses);
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    const auto line = addresses[i].find('\n');
    std::size_t first = 0;
    if (line == std::string::npos || !absl::SimpleAtoi(addresses[i].substr(0, line), &first)) continue;
    const std::string both = addresses[i].substr(line + 1);
    if (first == 0 || first >= both.size()) continue;
    peers_[i].addresses = {both.substr(0, first), both.substr(first)};
  }
}

Counters UcxCore::counters() const {
  return {.frames_sent = counted_.frames_sent,
          .frames_received = counted_.frames_received,
          .bulk_bytes_sent = counted_.bulk_bytes_sent,
          .bulk_bytes_received = counted_.bulk_bytes_received,
          .refused = counted_.refused};
}

// ---- the loop ----

void UcxCore::open_channels() {
  open_ = true;
  ready_.insert(ready_.begin(), std::make_move_iterator(early_.begin()), std::make_move_iterator(early_.end()));
  early_.clear();
}

void UcxCore::watch_next() {
  if (next().rank != options_.rank && !next().down()) connect(next());
}

void UcxCore::run() {
  inbox_->open();
  now_ns_ = clock_.now_ns();
  pulse_.start(now_ns_);
  next_tick_ns_ = now_ns_ + pulse_.interval_ns();
  std::int64_t worked_ns = now_ns_;
  while (!inbox_->stopped()) {
    if (work()) {
      worked_ns = now_ns_;
    } else if (now_ns_ - worked_ns >= ns(options_.spin)) {
      sleep();
    }
  }
  shut_down();
}

bool UcxCore::work() {
  bool worked = run_commands();
  worked |= progress();
  worked |= run_ready();
  now_ns_ = clock_.now_ns();
  if (!closing_.empty()) reap_closing();
  if (now_ns_ >= next_tick_ns_) tick();
  return worked;
}

bool UcxCore::progress() {
  const bool control = worker(Lane::kControl).progress();
  return worker(Lane::kBulk).progress() || control;
}

bool UcxCore::arm() { return worker(Lane::kControl).arm() && worker(Lane::kBulk).arm(); }

bool UcxCore::run_commands() {
  auto commands = inbox_->take();
  for (auto& command : commands) {
    if (auto* open = std::get_if<std::unique_ptr<OpenSend>>(&command)) {
      submit(std::move(*open));
    } else {
      std::get<absl::AnyInvocable<void()>>(command)();
    }
  }
  return !commands.empty();
}

// Those that are ready now: what they bring about waits until UCX has had its turn.
bool UcxCore::run_ready() {
  const std::size_t count = ready_.size();
  for (std::size_t i = 0; i < count; ++i) {
    Ready next = std::move(ready_.front());
    ready_.pop_front();
    std::visit([this](auto&& event) { act(std::move(event)); }, std::move(next));
  }
  return count > 0;
}

void UcxCore::sleep() {
  // Once more after arming: at a first contact UCX 1.13 takes the wake-up of frames that it then leaves lying
  // (seen once in 200 connects). For the same reason no sleep is long.
  if (!ready_.empty() || !arm() || progress()) return;
  std::array<pollfd, 3> descriptors{pollfd{worker(Lane::kControl).event_fd(), POLLIN, 0},
                                    pollfd{worker(Lane::kBulk).event_fd(), POLLIN, 0},
                                    pollfd{inbox_->event_fd(), POLLIN, 0}};
  const std::int64_t until_ns = std::min(next_tick_ns_, now_ns_ + kSleepMostNs);
  const std::int64_t left_ns = std::max<std::int64_t>(until_ns - clock_.now_ns(), 0);
  const timespec timeout{.tv_sec = left_ns / 1'000'000'000, .tv_nsec = left_ns % 1'000'000'000};
  if (!inbox_->fall_asleep()) return;  // from here on others may have borrowed what is this thread's
  ppoll(descriptors.data(), descriptors.size(), &timeout, nullptr);
  inbox_->awake();
}

void UcxCore::tick() {
  for (const Rank silent : pulse_.tick(now_ns_)) {
    Peer& gone = peer(silent);
    fail(gone, down(gone, absl::StrCat(
                              "nothing was heard of it for ",
                              ns(gone.heard ? options_.heartbeat_timeout : options_.first_contact_timeout) /
                                  1'000'000,
                              " ms")));
  }
  next_tick_ns_ = now_ns_ + pulse_.interval_ns();
  for (Peer& each : peers_) {
    if (each.down() || each.heartbeat_open || each.rank == options_.rank || !(each.connected() || each.heard))
      continue;
    each.heartbeat_open = true;  // one at a time: a stopped process takes none
    note(each, Lane::kControl, {.kind = NoteKind::kHeartbeat},
         [&each](const Status&) { each.heartbeat_open = false; });
  }
}

// ---- peers ----

bool UcxCore::connect(Peer& peer) {
  if (peer.connected()) return true;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    StatusOr<ucp_ep_h> connected = absl::UnavailableError("its address is unknown");
    if (!peer.addresses[lane].empty())
      connected = workers_[lane]->connect(peer.addresses[lane], &UcxCore::on_error, &peer);
    if (!connected.ok()) {
      fail(peer, down(peer, std::string(connected.status().message())));
      return false;
    }
    peer.endpoints[lane] = *connected;
  }
  pulse_.watch(peer.rank, now_ns_);
  return true;
}

void UcxCore::on_error(void* peer, ucp_ep_h, ucs_status_t status) {
  auto* failed = static_cast<Peer*>(peer);
  failed->core->ready_.emplace_back(Failed{failed, status});
}

void UcxCore::act(Failed failed) {
  fail(*failed.peer, down(*failed.peer, ucs_status_string(failed.status)));
}

void UcxCore::fail(Peer& peer, Status cause) {
  if (peer.down()) return;
  peer.cause = std::move(cause);
  pulse_.forget(peer.rank);
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    if (peer.endpoints[lane] != nullptr)
      peer.closing[lane] = workers_[lane]->close_by_force(std::exchange(peer.endpoints[lane], nullptr));
  }
  release_offers_of(peer);
  // Nothing of these is with UCX: nobody else would complete them.
  peer.in_pieces.clear();
  std::vector<OpenSend*> cut;
  for (const auto& open : peer.sends.items()) {
    if (open->pieces_open == 0) cut.push_back(open.get());
  }
  for (OpenSend* open : cut) finish(open);
  std::vector<OpenFetch*> waiting;
  for (const auto& open : peer.fetches.items()) {
    if (open->pulls_open == 0) waiting.push_back(open.get());
  }
  for (OpenFetch* open : waiting) finish(open);
  peer.closing_until_ns = now_ns_ + kCloseNs;
  closing_.push_back(&peer);
  ready_.emplace_back(Down{&peer});
}

void UcxCore::act(Down down) {
  if (!open_) return early_.push_back(down);
  if (peer_down_ && !stopping_) peer_down_(down.peer->rank, down.peer->cause);
}

// A closed endpoint's frames complete through UCX; those that it forgets complete here, when time is up and UCX has confirmed that the
// endpoints are closed: until then it may still write into a bulk's place, or read a bulk, and neither is its owner's again.
void UcxCore::reap_closing() {
  std::erase_if(closing_, [&](Peer* peer) {
    bool confirmed = true;
    for (ucs_status_ptr_t& request : peer->closing) {
      if (request == nullptr) continue;
      if (ucp_request_check_status(request) == UCS_INPROGRESS) {
        confirmed = false;
      } else {
        ucp_request_free(std::exchange(request, nullptr));
      }
    }
    const bool over = (peer->sends.empty() && peer->fetches.empty()) || now_ns_ >= peer->closing_until_ns;
    if (!confirmed || !over) return false;
    complete_all(*peer);
    return true;
  });
}

void UcxCore::complete_all(Peer& peer) {
  while (auto open = peer.sends.take_any()) {
    ready_.emplace_back(Finished{std::move(open->sent), peer.cause});
    orphan_sends_.add(std::move(open));
  }
  while (auto open = peer.fetches.take_any()) {
    ready_.emplace_back(Finished{std::move(open->fetched), peer.cause});
    orphan_fetches_.add(std::move(open));
  }
}

}  // namespace troupe::comm
