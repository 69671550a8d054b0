#include "comm/sim/sim_transport.h"

#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/check.h"

namespace troupe::comm {

// Lies at the sender until it is fetched.
class SimTransport::OfferedBulk final : public Arrival::Bulk {
 public:
  OfferedBulk(SimNetwork& network, Rank here, Rank from, std::uint64_t offer) : network_(network), here_(here), from_(from), offer_(offer) {}
  ~OfferedBulk() override {
    auto* transport = network_.transport_of(here_);
    if (offer_ != 0 && transport != nullptr) transport->refuse(from_, offer_);
  }
  void fetch(std::byte* into, Completion fetched) override {
    network_.transport_of(here_)->fetch(from_, std::exchange(offer_, 0), into, std::move(fetched));
  }

 private:
  SimNetwork& network_;
  const Rank here_, from_;
  std::uint64_t offer_;
};

// Came with its frame.
class SimTransport::CarriedBulk final : public Arrival::Bulk {
 public:
  CarriedBulk(SimTransport& receiver, Rank from, std::vector<std::byte> bytes) : receiver_(receiver), from_(from), bytes_(std::move(bytes)) {}
  void fetch(std::byte* into, Completion fetched) override {
    const std::uint64_t number = receiver_.open(from_, std::move(fetched));
    receiver_.post([&receiver = receiver_, number, into, bytes = std::move(bytes_)] {
      if (receiver.find(number) == nullptr) return;
      std::memcpy(into, bytes.data(), bytes.size());
      receiver.counters_.bulk_bytes_received += static_cast<std::int64_t>(bytes.size());
      receiver.complete(number, ok());
    });
  }

 private:
  SimTransport& receiver_;
  const Rank from_;
  std::vector<std::byte> bytes_;
};

SimTransport::~SimTransport() {
  stop();
  network_.ranks_[SimNetwork::index(rank_)].transport = nullptr;
}

void SimTransport::handle(Channel channel, Handler handler) {
  TROUPE_CHECK(!network_.ranks_[SimNetwork::index(rank_)].started) << "handlers are set before start";
  handlers_[static_cast<std::size_t>(channel)] = std::move(handler);
}

Status SimTransport::start() {
  network_.started(rank_);
  return ok();
}

// --- completions ---

std::uint64_t SimTransport::open(Rank peer, Completion completion, std::span<const std::byte> bulk) {
  open_.emplace(++last_number_, Open{peer, std::move(completion), bulk});
  return last_number_;
}

void SimTransport::complete(std::uint64_t number, const Status& result) {
  auto done = open_.extract(number);
  if (done && done.mapped().completion) done.mapped().completion(result);
}

void SimTransport::complete_soon(std::uint64_t number, const Status& result) {
  post([this, number, result] { complete(number, result); });
}

const SimTransport::Open* SimTransport::find(std::uint64_t number) const {
  const auto found = open_.find(number);
  return found == open_.end() ? nullptr : &found->second;
}

// --- sending ---

void SimTransport::send(Frame frame) {
  TROUPE_CHECK(frame.to.value >= 0 && frame.to.value < world()) << "a frame to rank " << frame.to << " of " << world();
  TROUPE_CHECK(frame.header.size() <= kHeaderBytesMost) << "a header of " << frame.header.size() << " bytes";
  const auto& process = network_.ranks_[SimNetwork::index(rank_)];
  if (process.stopped || process.crashed) return;  // nothing is called any more
  ++counters_.frames_sent;
  counters_.bulk_bytes_sent += static_cast<std::int64_t>(frame.bulk.size());
  const Rank to = frame.to;
  const bool offered = frame.bulk.size() > network_.options_.eager_bytes_most;
  const std::uint64_t number = open(to, std::move(frame.sent), frame.bulk);
  if (const Status& down = network_.pair(rank_, to).down; !down.ok()) return complete_soon(number, down);
  std::vector<std::byte> carried;
  if (!offered) {
    carried.assign(frame.bulk.begin(), frame.bulk.end());
    network_.enqueue(rank_, network_.clock_.now_ns() + network_.delay_ns(rank_, rank_, 0), {.act = [this, number] { complete(number, ok()); }});
  }
  network_.pair(to, rank_).traffic.bulk_bytes[static_cast<std::size_t>(frame.channel)] += static_cast<std::int64_t>(frame.bulk.size());
  network_.carry_frame(rank_, to, frame.channel, frame.lane,
                       [&network = network_, from = rank_, to, channel = frame.channel, offer = offered ? number : 0,
                        header = std::vector<std::byte>(frame.header.begin(), frame.header.end()),
                        bytes = static_cast<std::int64_t>(frame.bulk.size()), carried = std::move(carried)]() mutable {
                         SimTransport& receiver = *network.transport_of(to);
                         std::unique_ptr<Arrival::Bulk> bulk;
                         if (offer != 0) {
                           bulk = std::make_unique<OfferedBulk>(network, to, from, offer);
                         } else if (bytes > 0) {
                           bulk = std::make_unique<CarriedBulk>(receiver, from, std::move(carried));
                         }
                         receiver.arrive(from, channel, header, bytes, std::move(bulk));
                       });
}

// --- receiving ---

void SimTransport::arrive(Rank from, Channel channel, std::span<const std::byte> header, std::int64_t bulk_bytes,
                          std::unique_ptr<Arrival::Bulk> bulk) {
  auto& handler = handlers_[static_cast<std::size_t>(channel)];
  ++(handler ? counters_.frames_received : counters_.refused);
  if (handler) handler(Arrival(from, header, bulk_bytes, std::move(bulk)));
}

void SimTransport::fetch(Rank from, std::uint64_t offer, std::byte* into, Completion fetched) {
  TROUPE_CHECK(on_progress_thread()) << "a bulk is fetched on the progress thread";
  const std::uint64_t number = open(from, std::move(fetched));
  if (const Status& down = network_.pair(rank_, from).down; !down.ok()) return complete_soon(number, down);
  auto& network = network_;
  const auto wish = [&network, here = rank_, from, offer, into, number] {
    const Open* offered = network.transport_of(from)->find(offer);
    if (offered == nullptr) return;
    network.carry(from, here, static_cast<std::int64_t>(offered->bulk.size()), [&network, here, from, offer, into, number] {
      SimTransport& receiver = *network.transport_of(here);
      const SimTransport* sender = network.transport_of(from);
      const Open* source = sender == nullptr ? nullptr : sender->find(offer);
      if (source == nullptr || receiver.find(number) == nullptr) return;
      std::memcpy(into, source->bulk.data(), source->bulk.size());
      receiver.counters_.bulk_bytes_received += static_cast<std::int64_t>(source->bulk.size());
      network.carry(here, from, 0, [&network, from, offer] { network.transport_of(from)->complete(offer, ok()); });
      receiver.complete(number, ok());
    });
  };
  network_.carry(rank_, from, 0, wish);
}

void SimTransport::refuse(Rank from, std::uint64_t offer) {
  if (!network_.pair(rank_, from).down.ok()) return;
  const auto& process = network_.ranks_[SimNetwork::index(rank_)];
  if (process.stopped || process.crashed) return;
  network_.carry(rank_, from, 0, [&network = network_, from, offer] {
    network.transport_of(from)->complete(offer, absl::CancelledError("the receiver did not want the bulk"));
  });
}

// --- the end ---

void SimTransport::peer_went_down(Rank peer, const Status& cause) {
  const auto tell = [&] {
    post([this, peer, cause] {
      if (peer_down_) peer_down_(peer, cause);
    });
  };
  const bool told_first = network_.chance(0.5);
  if (told_first) tell();
  for (const auto& [number, open] : open_) {
    if (open.peer == peer) complete_soon(number, cause);
  }
  if (!told_first) tell();
}

void SimTransport::stop(const Status& why) {
  TROUPE_CHECK(!on_progress_thread()) << "the progress thread cannot stop itself";
  const auto& process = network_.ranks_[SimNetwork::index(rank_)];
  if (process.stopped) return;
  network_.stopped(rank_, why);
  if (process.crashed) {  // nothing of it runs any more
    open_.clear();
    return;
  }
  const Rank before = std::exchange(network_.progress_, rank_);
  while (!open_.empty()) complete(open_.begin()->first, absl::UnavailableError("the transport was stopped"));
  network_.progress_ = before;
}

std::string SimTransport::unfinished() const {
  std::map<Rank, int> by_peer;
  for (const auto& [number, open] : open_) ++by_peer[open.peer];
  std::string text;
  for (const auto& [peer, count] : by_peer) absl::StrAppend(&text, " ", count, " completions open with rank ", peer.value);
  return text;
}

}  // namespace troupe::comm
