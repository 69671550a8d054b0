#include "comm/local/local_transport.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/check.h"
#include "runtime/base/first_cause.h"

namespace troupe::comm {

class LocalTransport final : public Transport {
 public:
  LocalTransport(LocalHub& hub, Rank rank) : hub_(hub), rank_(rank) {}
  ~LocalTransport() override { stop(); }

  Rank rank() const override { return rank_; }
  int world() const override { return hub_.world(); }
  void handle(Channel channel, Handler handler) override {
    TROUPE_CHECK(!thread_.joinable()) << "handlers are set before start";
    handlers_[static_cast<std::size_t>(channel)] = std::move(handler);
  }
  void on_peer_down(PeerDown handler) override { peer_down_ = std::move(handler); }
  Status start() override {
    thread_ = std::thread([this] { serve(); });
    return ok();
  }
  void send(Frame frame) override;
  void post(absl::AnyInvocable<void()> function) override { enqueue(std::move(function)); }
  bool on_progress_thread() const override { return std::this_thread::get_id() == serving_.load(); }
  void stop(const Status& why = ok()) override;
  Counters counters() const override {
    std::lock_guard lock(mutex_);
    return counters_;
  }

  void peer_went_down(Rank peer, const Status& cause);

 private:
  struct Packet;
  class LocalBulk;
  // Dropped once stopped.
  void enqueue(absl::AnyInvocable<void()> function);
  void serve();
  void arrive(std::unique_ptr<Packet> packet);
  // An open completion has a number until it is called, by complete() or by the end. 0 is none.
  std::uint64_t open(Rank peer, Completion completion);
  void complete(std::uint64_t number, Status result);

  LocalHub& hub_;
  const Rank rank_;
  std::array<Handler, kChannels> handlers_;
  PeerDown peer_down_;
  std::atomic<std::thread::id> serving_{};  // thread_, which others may ask for while it is made
  std::thread thread_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable work_;
  std::deque<absl::AnyInvocable<void()>> queue_;
  struct Open {
    Rank peer;
    Completion completion;
  };
  std::map<std::uint64_t, Open> open_;
  std::uint64_t last_number_ = 0;
  bool stopped_ = false;
  Counters counters_;
};

struct LocalTransport::Packet {
  LocalHub& hub;
  Rank from;
  Channel channel;
  std::vector<std::byte> header;
  std::span<const std::byte> bulk;
  std::uint64_t sent;  // the sender's completion
  bool arrived = false;

  Packet(LocalHub& of, Rank sender, const Frame& frame, std::uint64_t number)
      : hub(of), from(sender), channel(frame.channel), header(frame.header.begin(), frame.header.end()), bulk(frame.bulk), sent(number) {}
  ~Packet() {
    finish(arrived ? absl::CancelledError("the receiver did not want the bulk") : absl::UnavailableError("the receiver has stopped"));
  }
  void finish(Status result) {
    const auto number = std::exchange(sent, 0);
    if (number == 0) return;
    std::unique_lock lock(hub.mutex_);
    if (auto* sender = hub.members_[static_cast<std::size_t>(from.value)]) sender->complete(number, std::move(result));
  }
};

class LocalTransport::LocalBulk final : public Arrival::Bulk {
 public:
  LocalBulk(LocalTransport& receiver, std::unique_ptr<Packet> packet) : receiver_(receiver), packet_(std::move(packet)) {}
  void fetch(std::byte* into, Completion fetched) override {
    const Status gone = copy(into);
    if (gone.ok()) {
      std::lock_guard lock(receiver_.mutex_);
      receiver_.counters_.bulk_bytes_received += static_cast<std::int64_t>(packet_->bulk.size());
    }
    packet_->finish(gone);
    receiver_.complete(receiver_.open(packet_->from, std::move(fetched)), gone);
  }

 private:
  Status copy(std::byte* into) const {
    LocalHub& hub = packet_->hub;
    std::shared_lock lock(hub.mutex_);
    if (const Status down = hub.down(packet_->from, receiver_.rank_); !down.ok()) return down;
    std::memcpy(into, packet_->bulk.data(), packet_->bulk.size());
    return ok();
  }

  LocalTransport& receiver_;
  std::unique_ptr<Packet> packet_;
};

std::uint64_t LocalTransport::open(Rank peer, Completion completion) {
  if (!completion) return 0;
  std::lock_guard lock(mutex_);
  open_.emplace(++last_number_, Open{peer, std::move(completion)});
  return last_number_;
}

void LocalTransport::complete(std::uint64_t number, Status result) {
  if (number == 0) return;
  enqueue([this, number, result = std::move(result)] {
    Completion completion;
    {
      std::lock_guard lock(mutex_);
      const auto found = open_.find(number);
      if (found == open_.end()) return;
      completion = std::move(found->second.completion);
      open_.erase(found);
    }
    completion(result);
  });
}

void LocalTransport::enqueue(absl::AnyInvocable<void()> function) {
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return;
    queue_.push_back(std::move(function));
  }
  work_.notify_one();
}

void LocalTransport::send(Frame frame) {
  TROUPE_CHECK(frame.to.value >= 0 && frame.to.value < world()) << "a frame to rank " << frame.to << " of " << world();
  TROUPE_CHECK(frame.header.size() <= kHeaderBytesMost) << "a header of " << frame.header.size() << " bytes";
  {
    std::lock_guard lock(mutex_);
    ++counters_.frames_sent;
    counters_.bulk_bytes_sent += static_cast<std::int64_t>(frame.bulk.size());
  }
  const Rank to = frame.to;
  const std::uint64_t number = open(to, std::move(frame.sent));
  auto packet = std::make_unique<Packet>(hub_, rank_, frame, number);
  Status down;
  {
    std::unique_lock lock(hub_.mutex_);
    down = hub_.down(to, rank_);
    if (down.ok()) {
      auto* receiver = hub_.members_[static_cast<std::size_t>(to.value)];
      if (packet->bulk.empty()) complete(std::exchange(packet->sent, 0), ok());  // it has left once it is queued
      receiver->enqueue([receiver, packet = std::move(packet)]() mutable { receiver->arrive(std::move(packet)); });
      return;
    }
  }
  packet->finish(down);
}

void LocalTransport::arrive(std::unique_ptr<Packet> packet) {
  auto& handler = handlers_[static_cast<std::size_t>(packet->channel)];
  {
    std::lock_guard lock(mutex_);
    ++(handler ? counters_.frames_received : counters_.refused);
  }
  packet->arrived = true;
  if (!handler) return;
  const Rank from = packet->from;
  const std::vector<std::byte> header = std::move(packet->header);
  const auto bulk_bytes = static_cast<std::int64_t>(packet->bulk.size());
  handler(Arrival(from, header, bulk_bytes, bulk_bytes > 0 ? std::make_unique<LocalBulk>(*this, std::move(packet)) : nullptr));
}

void LocalTransport::serve() {
  serving_ = std::this_thread::get_id();
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [&] { return stopped_ || !queue_.empty(); });
    if (stopped_) break;
    auto function = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    function();
    function = nullptr;  // before the next wait: it may hold a packet whose sender waits
    lock.lock();
  }
  auto left = std::exchange(open_, {});
  lock.unlock();
  for (auto& [number, open] : left) open.completion(absl::UnavailableError("the transport has stopped"));
}

void LocalTransport::peer_went_down(Rank peer, const Status& cause) {
  enqueue([this, peer, cause] {
    std::vector<Completion> ended;
    {
      std::lock_guard lock(mutex_);
      for (auto it = open_.begin(); it != open_.end();) {
        if (it->second.peer == peer) ended.push_back(std::move(it->second.completion));
        it = it->second.peer == peer ? open_.erase(it) : std::next(it);
      }
    }
    if (peer_down_) peer_down_(peer, cause);
    for (auto& completion : ended) completion(cause);
  });
}

void LocalTransport::stop(const Status& why) {
  {
    std::unique_lock lock(hub_.mutex_);
    auto& own = hub_.members_[static_cast<std::size_t>(rank_.value)];
    if (own == nullptr) return;
    own = nullptr;
    for (auto* member : hub_.members_) {
      if (member) member->peer_went_down(rank_, departure(rank_, why));
    }
  }
  std::deque<absl::AnyInvocable<void()>> left;  // dies without a lock held: packets tell their senders
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    left.swap(queue_);
  }
  work_.notify_all();
  if (thread_.joinable()) thread_.join();
}

LocalHub::LocalHub(int world) : members_(static_cast<std::size_t>(world)), cut_(static_cast<std::size_t>(world)) {}
LocalHub::~LocalHub() {
  for (const auto* member : members_) TROUPE_CHECK(member == nullptr) << "a transport outlives its hub";
}

Status LocalHub::down(Rank a, Rank b) const {
  for (const Rank end : {a, b}) {
    const auto at = static_cast<std::size_t>(end.value);
    if (!cut_[at].ok()) return cut_[at];
    if (members_[at] == nullptr) return due_to(end, absl::StrCat("rank ", end.value, " is not there"));
  }
  return ok();
}

std::unique_ptr<Transport> LocalHub::transport(Rank rank) {
  auto made = std::make_unique<LocalTransport>(*this, rank);
  std::unique_lock lock(mutex_);
  auto& member = members_.at(static_cast<std::size_t>(rank.value));
  TROUPE_CHECK(member == nullptr) << "rank " << rank << " has its transport already";
  member = made.get();
  return made;
}

void LocalHub::cut(Rank rank, const Status& cause) {
  std::unique_lock lock(mutex_);
  cut_.at(static_cast<std::size_t>(rank.value)) = cause;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (auto* member = members_[i]; member && static_cast<std::int32_t>(i) != rank.value) member->peer_went_down(rank, cause);
  }
}

}  // namespace troupe::comm
