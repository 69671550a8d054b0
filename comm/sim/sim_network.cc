#include "comm/sim/sim_network.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/sim/sim_transport.h"
#include "runtime/base/check.h"
#include "runtime/base/first_cause.h"

namespace troupe::comm {
namespace {

constexpr Rank kNobody{-1};
constexpr int kLanes = 2;

Status down(Rank rank, const std::string& why) { return due_to(rank, absl::StrCat("rank ", rank.value, " is down: ", why)); }

}  // namespace

SimNetwork::SimNetwork(const Clock& clock, const SimNetworkOptions& options)
    : clock_(clock), options_(options), ranks_(static_cast<std::size_t>(options.world)), pairs_(ranks_.size() * ranks_.size()) {
  TROUPE_CHECK(options.world > 0 && options.delay_ns_min >= 0 && options.delay_ns_max > options.delay_ns_min);
}

SimNetwork::~SimNetwork() {
  for (const auto& process : ranks_) TROUPE_CHECK(process.transport == nullptr) << "a transport outlives its network";
}

std::unique_ptr<Transport> SimNetwork::transport(Rank rank) {
  auto& process = ranks_.at(index(rank));
  TROUPE_CHECK(process.transport == nullptr && !process.stopped) << "rank " << rank << " has its transport already";
  auto made = std::make_unique<SimTransport>(*this, rank);
  process.transport = made.get();
  return made;
}

// --- chance and time ---

std::uint64_t SimNetwork::random() {
  const std::uint64_t n = drawn_++;
  const auto words = philox({static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(n >> 32), 0x4e45u, 0},
                            {static_cast<std::uint32_t>(options_.seed), static_cast<std::uint32_t>(options_.seed >> 32)});
  return std::uint64_t{words[0]} << 32 | words[1];
}

std::int64_t SimNetwork::delay_ns(Rank from, Rank to, std::int64_t bytes) {
  const std::uint64_t drawn = random();
  const auto span = static_cast<std::uint64_t>(options_.delay_ns_max - options_.delay_ns_min);
  double ns = static_cast<double>(options_.delay_ns_min) + static_cast<double>((drawn >> 4) % span);
  if (drawn % 16 == 0) ns *= 10;
  ns += static_cast<double>(bytes) / options_.bytes_per_s * 1e9;
  return static_cast<std::int64_t>(ns * std::max(ranks_[index(from)].slowness, ranks_[index(to)].slowness));
}

void SimNetwork::at(std::int64_t time_ns, absl::AnyInvocable<void()> act) {
  schedule_.emplace(Moment{std::max(time_ns, clock_.now_ns()), ++numbered_}, Event{.act = std::move(act)});
}

void SimNetwork::enqueue(Rank at, std::int64_t time_ns, Event event) {
  Process& process = ranks_[index(at)];
  if (process.stopped || process.crashed) {
    if (event.frame) ++pair(at, event.from).traffic.lost;
    return;
  }
  process.queue.emplace(Moment{time_ns, ++numbered_}, std::move(event));
}

std::int64_t SimNetwork::ready_at_ns() const {
  std::int64_t first = schedule_.empty() ? kNever : schedule_.begin()->first.first;
  for (const auto& process : ranks_) {
    if (can_step(process) && !process.queue.empty()) first = std::min(first, process.queue.begin()->first.first);
  }
  return first;
}

void SimNetwork::step() {
  const std::int64_t now = clock_.now_ns();
  const auto due = [now](const Queue& queue) { return !queue.empty() && queue.begin()->first.first <= now; };
  std::vector<Rank> choices;
  if (due(schedule_)) choices.push_back(kNobody);
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (can_step(ranks_[i]) && due(ranks_[i].queue)) choices.push_back(Rank(static_cast<std::int32_t>(i)));
  }
  TROUPE_CHECK(!choices.empty()) << "the network stepped before anything is due";
  const Rank chosen = choices[random() % choices.size()];
  Queue& queue = chosen == kNobody ? schedule_ : ranks_[index(chosen)].queue;
  auto head = queue.extract(queue.begin());
  ++events_;
  for (const std::uint64_t word : {static_cast<std::uint64_t>(chosen.value), static_cast<std::uint64_t>(head.key().first), head.key().second}) {
    order_ = (order_ ^ word) * 0x100000001b3u;  // FNV-1a, a word at a time
  }
  if (chosen == kNobody) {
    head.mapped().act();
  } else {
    execute(chosen, head.key(), std::move(head.mapped()));
  }
}

void SimNetwork::execute(Rank at, Moment moment, Event event) {
  if (event.from != kNobody && event.from != at) {
    Pair& way = pair(at, event.from);
    if (way.cut) {
      way.waiting.emplace(moment, std::move(event));
      return;
    }
    if (!way.down.ok()) {
      if (event.frame) ++way.traffic.lost;
      return;
    }
  }
  if (event.frame) ++pair(at, event.from).traffic.arrived;
  progress_ = at;
  event.act();
  event.act = nullptr;
  progress_ = kNobody;
}

// --- carrying ---

void SimNetwork::post(Rank rank, absl::AnyInvocable<void()> act) { enqueue(rank, clock_.now_ns(), {.act = std::move(act)}); }

void SimNetwork::carry(Rank from, Rank to, std::int64_t bytes, absl::AnyInvocable<void()> arrive) {
  enqueue(to, clock_.now_ns() + delay_ns(from, to, bytes), {.from = from, .act = std::move(arrive)});
}

void SimNetwork::carry_frame(Rank from, Rank to, Channel channel, Lane lane, absl::AnyInvocable<void()> arrive) {
  Pair& way = pair(to, from);
  ++way.traffic.sent;
  std::int64_t& latest = way.latest[{static_cast<int>(lane), static_cast<int>(channel)}];
  latest = std::max(latest, clock_.now_ns() + delay_ns(from, to, 0));
  enqueue(to, latest, {.from = from, .frame = true, .act = std::move(arrive)});
}

void SimNetwork::drop_all_for(Rank rank) {
  const auto drop = [&](Queue& queue) {
    for (const auto& [moment, event] : std::exchange(queue, {})) {
      if (event.frame) ++pair(rank, event.from).traffic.lost;
    }
  };
  drop(ranks_[index(rank)].queue);
  for (std::size_t i = 0; i < ranks_.size(); ++i) drop(pair(rank, Rank(static_cast<std::int32_t>(i))).waiting);
}

// --- life of a rank ---

void SimNetwork::started(Rank rank) {
  TROUPE_CHECK(!std::exchange(ranks_[index(rank)].started, true)) << "rank " << rank << " started twice";
  for (std::size_t i = 0; i < ranks_.size(); ++i) arm(rank, Rank(static_cast<std::int32_t>(i)));
}

void SimNetwork::stopped(Rank rank, const Status& why) {
  Process& process = ranks_[index(rank)];
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const Rank there(static_cast<std::int32_t>(i));
    if (there == rank || !process.started || process.crashed || !pair(rank, there).down.ok()) continue;
    for (int lane = 0; lane < kLanes; ++lane) {
      std::int64_t arrival = clock_.now_ns() + delay_ns(rank, there, 0);
      for (const auto& [of, latest] : pair(there, rank).latest) {
        if (of.first == lane) arrival = std::max(arrival, latest);
      }
      enqueue(there, arrival, {.from = rank, .act = [this, there, rank, cause = departure(rank, why)] {
                                 if (++pair(there, rank).byes == kLanes) take_for_down(there, rank, cause);
                               }});
    }
  }
  process.stopped = true;
  drop_all_for(rank);
  listen_again();
}

// --- faults ---

void SimNetwork::slow(Rank rank, double factor) { ranks_.at(index(rank)).slowness = factor; }

void SimNetwork::cut(Rank a, Rank b) {
  TROUPE_CHECK(a != b) << "rank " << a << " is always with itself";
  pair(a, b).cut = pair(b, a).cut = true;
  listen_again();
}

void SimNetwork::mend(Rank a, Rank b) {
  for (const auto& [here, there] : {std::pair(a, b), std::pair(b, a)}) {
    Pair& way = pair(here, there);
    way.cut = false;
    // With their old places in the queue: what came meanwhile stays behind them.
    if (Process& process = ranks_[index(here)]; !process.stopped && !process.crashed) process.queue.merge(way.waiting);
    for (const auto& [moment, event] : std::exchange(way.waiting, {})) way.traffic.lost += event.frame ? 1 : 0;
  }
  listen_again();
}

void SimNetwork::part(const std::vector<Rank>& side) {
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const Rank other(static_cast<std::int32_t>(i));
    if (std::find(side.begin(), side.end(), other) != side.end()) continue;
    for (const Rank rank : side) cut(rank, other);
  }
}

void SimNetwork::crash(Rank rank) {
  ranks_.at(index(rank)).crashed = true;
  drop_all_for(rank);
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const Rank other(static_cast<std::int32_t>(i));
    if (other == rank || pair(other, rank).cut || !chance(options_.told_of_a_crash)) continue;
    carry(other, other, 0, [this, other, rank] { take_for_down(other, rank, down(rank, "connection reset by peer")); });
  }
  listen_again();
}

void SimNetwork::pause(Rank rank) {
  ranks_.at(index(rank)).paused = true;
  listen_again();
}

// What the others said meanwhile has not been read yet: every silence counts from now.
void SimNetwork::resume(Rank rank) {
  ranks_.at(index(rank)).paused = false;
  for (std::size_t i = 0; i < ranks_.size(); ++i) arm(rank, Rank(static_cast<std::int32_t>(i)));
  listen_again();
}

// --- silence ---

bool SimNetwork::hears(Rank here, Rank there) const {
  const Process& process = ranks_[index(there)];
  const Pair& way = pair(here, there);
  if (here == there || !way.down.ok()) return true;  // nobody waits for it
  return !way.cut && !process.crashed && !process.paused && !process.stopped && pair(there, here).down.ok();
}

void SimNetwork::listen_again() {
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    const Rank here(static_cast<std::int32_t>(i / ranks_.size())), there(static_cast<std::int32_t>(i % ranks_.size()));
    if (hears(here, there) == pairs_[i].heard) continue;
    pairs_[i].heard = !pairs_[i].heard;
    arm(here, there);
  }
}

void SimNetwork::arm(Rank here, Rank there) {
  Pair& way = pair(here, there);
  const std::uint64_t silence = ++way.silence;
  if (way.heard) return;
  const auto interval = static_cast<std::uint64_t>(options_.heartbeat_timeout_ns / 4);
  const std::int64_t timeout_ns = options_.heartbeat_timeout_ns + static_cast<std::int64_t>(random() % (interval + 1));
  enqueue(here, clock_.now_ns() + timeout_ns, {.act = [this, &way, here, there, silence] {
            if (way.silence != silence) return;
            take_for_down(here, there, down(there, absl::StrCat("nothing was heard of it for ", options_.heartbeat_timeout_ns / 1'000'000, " ms")));
          }});
}

void SimNetwork::take_for_down(Rank here, Rank there, const Status& cause) {
  Pair& way = pair(here, there);
  if (!way.down.ok()) return;
  way.down = cause;
  for (const auto& [moment, event] : std::exchange(way.waiting, {})) way.traffic.lost += event.frame ? 1 : 0;
  ranks_[index(here)].transport->peer_went_down(there, way.down);
  listen_again();
}

std::string SimNetwork::unfinished() const {
  std::string text;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const Process& process = ranks_[i];
    if (process.transport == nullptr || !can_step(process)) continue;
    std::string open = process.transport->unfinished();
    if (!process.queue.empty()) absl::StrAppend(&open, " ", process.queue.size(), " events due");
    if (!open.empty()) absl::StrAppend(&text, text.empty() ? "" : "; ", "rank ", i, ":", open);
  }
  return text;
}

}  // namespace troupe::comm
