#include "comm/inspect/inspect_tree.h"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "comm/inspect/relay.h"
#include "runtime/base/check.h"
#include "runtime/base/clock.h"

namespace troupe::comm {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
constexpr std::chrono::milliseconds kBetweenLooks{100};  // at the own transport, which may stop while somebody waits

// What has become known for one ask. An answer stays; a failure stays until there is an answer.
class Replies {
 public:
  explicit Replies(int world) : replies_(static_cast<std::size_t>(world)), missing_(world) {}

  void put(InspectReply reply) {
    std::lock_guard lock(mutex_);
    if (taken_) return;
    reply.after_ns = clock_.now_ns() - asked_ns_;
    if (reply.status.ok()) {
      bytes_ += reply.text.size();
      if (bytes_ > kAnswersBytesMost) {
        bytes_ -= reply.text.size();
        reply.status = absl::ResourceExhaustedError(absl::StrCat("its answer of ", reply.text.size(), " bytes came when there was no room for it: at most ",
                                                                 kAnswersBytesMost, " of all ranks together"));
        reply.text.clear();
      }
    }
    auto& of_it = replies_[static_cast<std::size_t>(reply.rank.value)];
    if (of_it && (of_it->status.ok() || !reply.status.ok())) return;
    if (!of_it && --missing_ == 0) complete_.notify_one();
    of_it = std::move(reply);
  }
  // Of all of which nothing is known.
  void put_missing(const Status& status) {
    for (std::size_t rank = 0; rank < replies_.size(); ++rank) put({.rank = Rank(static_cast<std::int32_t>(rank)), .status = status, .text = {}});
  }
  // Whether something is known of all.
  bool complete_by(std::chrono::steady_clock::time_point time) {
    std::unique_lock lock(mutex_);
    return complete_.wait_until(lock, time, [this] { return missing_ == 0; });
  }
  // Once; later ones are dropped.
  std::vector<InspectReply> take() {
    std::lock_guard lock(mutex_);
    taken_ = true;
    std::vector<InspectReply> all;
    for (auto& reply : replies_) all.push_back(std::move(*reply));
    return all;
  }

 private:
  const SteadyClock clock_;
  const std::int64_t asked_ns_ = clock_.now_ns();
  std::mutex mutex_;  // guards what follows
  std::condition_variable complete_;
  std::vector<std::optional<InspectReply>> replies_;  // by rank
  int missing_;
  std::size_t bytes_ = 0;
  bool taken_ = false;
};

}  // namespace

// The relay's host, and what the transport calls. Lives as long as one of them needs it; closed with the InspectTree.
class InspectTree::Node final : public InspectRelay::Host, public std::enable_shared_from_this<Node> {
 public:
  Node(Transport* transport, Answer answer) : transport_(transport), answerer_(std::move(answer)) {
    if (transport_ == nullptr) return;
    relay_.emplace(*transport_, clock_, *this);
    timer_ = std::thread([this] { keep_time(); });
    pthread_setname_np(timer_.native_handle(), "inspect timer");
  }

  void close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_one();
    if (timer_.joinable()) timer_.join();
    answerer_.close();
  }

  // On the progress thread.
  std::int64_t compute(std::int64_t number, const std::string& question) override {
    return answerer_.submit(question, [this, number](StatusOr<std::string> answer) {
      transport_->post([node = shared_from_this(), number, answer = std::move(answer)]() mutable { node->relay_->answered(number, std::move(answer)); });
    });
  }
  void forget(std::int64_t job) override { answerer_.withdraw(job); }
  void wake_at(std::int64_t time_ns) override {
    std::lock_guard lock(mutex_);
    if (time_ns >= wake_at_ns_) return;
    wake_at_ns_ = time_ns;
    changed_.notify_one();
  }
  bool closed() {
    std::lock_guard lock(mutex_);
    return closed_;
  }

  // Also of use when the own transport has stopped for that reason.
  void lost(Rank peer, const Status& cause) {
    std::lock_guard lock(mutex_);
    lost_.emplace(peer, cause);
  }
  Status why_silent(Rank peer) {
    std::lock_guard lock(mutex_);
    const auto known = lost_.find(peer);
    return known != lost_.end() ? known->second : absl::UnavailableError("the transport of the rank that asks has stopped");
  }

  InspectRelay& relay() { return *relay_; }
  std::int64_t refused() const { return relay_ ? relay_->refused() : 0; }
  Answerer& answerer() { return answerer_; }

 private:
  void keep_time() {
    std::unique_lock lock(mutex_);
    while (!closed_) {
      const std::int64_t now = clock_.now_ns();
      if (wake_at_ns_ == kNever) {
        changed_.wait(lock);
      } else if (wake_at_ns_ > now) {
        changed_.wait_for(lock, std::chrono::nanoseconds(wake_at_ns_ - now));
      } else {
        wake_at_ns_ = kNever;  // tick() says when next
        lock.unlock();
        transport_->post([node = shared_from_this()] { node->relay_->tick(); });
        lock.lock();
      }
    }
  }

  Transport* const transport_;
  const SteadyClock clock_;
  std::optional<InspectRelay> relay_;  // progress thread
  Answerer answerer_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::int64_t wake_at_ns_ = kNever;
  bool closed_ = false;
  std::map<Rank, Status> lost_;
  std::thread timer_;
};

InspectTree::InspectTree(Transport* transport, Answer answer)
    : transport_(transport), node_(std::make_shared<Node>(transport, std::move(answer))) {
  if (transport_ == nullptr) return;
  transport_->handle(Channel::kInspect, [node = node_](Arrival arrival) {
    if (!node->closed()) node->relay().arrive(std::move(arrival));
  });
}

InspectTree::~InspectTree() { node_->close(); }

std::vector<InspectTree::Reply> InspectTree::ask(const std::string& question, std::chrono::nanoseconds patience) {
  TROUPE_CHECK(transport_ == nullptr || !transport_->on_progress_thread()) << "the progress thread cannot wait for answers";
  const Rank self = transport_ == nullptr ? Rank(0) : transport_->rank();
  const int world = transport_ == nullptr ? 1 : transport_->world();
  patience = std::clamp(patience, std::chrono::nanoseconds(1), std::chrono::nanoseconds(InspectRelay::kPatienceNsMost));
  const auto replies = std::make_shared<Replies>(world);
  if (question.size() > kQuestionBytesMost) {
    replies->put_missing(absl::InvalidArgumentError(absl::StrCat("a question of ", question.size(), " bytes: at most ", kQuestionBytesMost)));
    return replies->take();
  }
  // Not by way of the progress thread: of this rank something is known even when that is gone.
  const std::int64_t job = node_->answerer().submit(question, [replies, self](StatusOr<std::string> answer) {
    Reply own{.rank = self, .status = answer.status(), .text = {}};
    if (answer.ok()) own.text = std::move(*answer);
    replies->put(std::move(own));
  });
  // A transport that has stopped drops what is posted.
  const auto post = [&](auto function) {
    auto dropped = absl::MakeCleanup([node = node_, replies, self, world] {
      for (int rank = 0; rank < world; ++rank) {
        if (rank != self.value) replies->put({.rank = Rank(rank), .status = node->why_silent(Rank(rank)), .text = {}});
      }
    });
    transport_->post([function = std::move(function), dropped = std::move(dropped)]() mutable {
      std::move(dropped).Cancel();
      function();
    });
  };
  const auto deadline = std::chrono::steady_clock::now() + patience;
  if (world > 1) {
    post([node = node_, replies, question, patience] {
      node->relay().ask(question, patience.count(), [replies](InspectReply reply) { replies->put(std::move(reply)); });
    });
  }
  while (!replies->complete_by(std::min(deadline, std::chrono::steady_clock::now() + kBetweenLooks)) && std::chrono::steady_clock::now() < deadline) {
    if (world > 1) post([] {});  // what it was asked before is forgotten if it has stopped meanwhile
  }
  node_->answerer().withdraw(job);
  replies->put_missing(absl::DeadlineExceededError(absl::StrCat("no answer within ", in_seconds(patience.count()))));
  return replies->take();
}

void InspectTree::peer_down(Rank peer, const Status& cause) {
  if (transport_ == nullptr) return;
  node_->lost(peer, cause);
  node_->relay().peer_down(peer, cause);
}

std::int64_t InspectTree::refused() const { return node_->refused(); }

}  // namespace troupe::comm
