// The network of the deterministic world: the transports of all ranks of a job in virtual time, and what may befall them.
//
// Everything that goes from one rank to another is a packet with a delay drawn from the seed: a frame, the wish to have its bulk, the
// bulk itself (its bytes move when it comes, so whoever touches them too early is seen), the answer that it came. Frames keep the order
// that transport.h promises and no other. Each rank has a queue of what is due on its progress thread; the seed chooses whose turn it is.
//
// Silence: a rank hears another while the link between them holds and the other runs, serves and talks to it. Once it has not for the
// timeout (and up to a quarter more, drawn), it takes the other for down: as with real heartbeats, without their frames.
//
// Threads: one, that of the deterministic world. Handlers, completions and posted functions run in step() (and in stop(), for what is
// open then), never within send, post or fetch. Owns: what is under way. Outlives its transports and every Arrival.
// Invariants: SimNetwork.LosesAndDoublesNothingOnALiveLink, SimNetwork.TheSameSeedIsTheSameRun.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/transport.h"
#include "runtime/base/clock.h"
#include "runtime/base/rng.h"
#include "runtime/device/sim_stream.h"

namespace troupe::comm {

class SimTransport;

struct SimNetworkOptions {
  int world = 1;
  std::uint64_t seed = 0;
  std::int64_t delay_ns_min = 2'000, delay_ns_max = 40'000;  // of a packet; one in sixteen takes ten times as long
  double bytes_per_s = 1e9;                                  // of a bulk, on top
  // A bulk up to this size travels with its frame: `sent` is ok once it has left, as over UCX.
  std::size_t eager_bytes_most = 0;
  std::int64_t heartbeat_timeout_ns = 20'000'000;
  // How likely it is that a rank hears of a crash at once, as when a connection is reset, and not by silence.
  double told_of_a_crash = 0;
};

class SimNetwork final : public device::SimRunnable {
 public:
  // What went from one rank to another.
  struct Traffic {
    std::int64_t sent = 0;     // frames
    std::int64_t arrived = 0;
    std::int64_t lost = 0;     // the receiver had ended, or took the sender for down
    std::array<std::int64_t, kChannels> bulk_bytes{};  // sent, by channel
  };

  // `clock` is the world's and outlives the network.
  SimNetwork(const Clock& clock, const SimNetworkOptions& options);
  ~SimNetwork() override;

  // Once per rank.
  std::unique_ptr<Transport> transport(Rank rank);

  // `act` at that time, between two events; faults, starts, and whatever else a test does.
  void at(std::int64_t time_ns, absl::AnyInvocable<void()> act);
  std::int64_t now_ns() const { return clock_.now_ns(); }

  // Faults, from now on. A link goes both ways; what is sent over a cut one waits until it is mended.
  void slow(Rank rank, double factor);          // of the delays of all that it sends and gets
  void cut(Rank a, Rank b);
  void mend(Rank a, Rank b);
  void part(const std::vector<Rank>& side);     // cuts all links between `side` and the others
  void crash(Rank rank);                        // its process does nothing more; what it sent is on its way
  void pause(Rank rank);                        // as by SIGSTOP
  void resume(Rank rank);
  // Whether the rank's process runs: what else it consists of asks this before each step.
  bool runs(Rank rank) const { return !ranks_[index(rank)].crashed && !ranks_[index(rank)].paused; }
  bool has_crashed(Rank rank) const { return ranks_[index(rank)].crashed; }

  std::int64_t ready_at_ns() const override;
  void step() override;  // one event
  const std::string& name() const override { return name_; }

  // Observing.
  int world() const { return options_.world; }
  const Traffic& traffic(Rank from, Rank to) const { return pair(to, from).traffic; }
  bool takes_for_down(Rank rank, Rank peer) const { return !pair(rank, peer).down.ok(); }
  // What is still open at the ranks that live; empty once all has ended.
  std::string unfinished() const;
  std::int64_t events() const { return events_; }
  std::uint64_t order() const { return order_; }  // a fingerprint of what happened where and when
  // The latest that a rank hears of a silence that begins now.
  std::int64_t silence_ns_most() const { return options_.heartbeat_timeout_ns + options_.heartbeat_timeout_ns / 4; }

 private:
  friend class SimTransport;
  struct Event {
    Rank from{-1};        // whose packet it is; -1: none's
    bool frame = false;
    absl::AnyInvocable<void()> act;
  };
  using Moment = std::pair<std::int64_t, std::uint64_t>;  // time, and the order of those at one time
  using Queue = std::map<Moment, Event>;
  struct Process {
    SimTransport* transport = nullptr;
    bool started = false, stopped = false, crashed = false, paused = false;
    double slowness = 1;
    Queue queue;
  };
  // What a rank knows of another, and the way from there to here.
  struct Pair {
    Status down;               // not ok: the rank takes the peer for down
    bool heard = true;
    std::uint64_t silence = 0;  // numbers silences: a timer is good for one
    int byes = 0;
    bool cut = false;
    Queue waiting;             // came while the link was cut
    std::map<std::pair<int, int>, std::int64_t> latest;  // arrival of the last frame by (lane, channel)
    Traffic traffic;
  };

  static std::size_t index(Rank rank) { return static_cast<std::size_t>(rank.value); }
  Pair& pair(Rank here, Rank there) { return pairs_[index(here) * ranks_.size() + index(there)]; }
  const Pair& pair(Rank here, Rank there) const { return pairs_[index(here) * ranks_.size() + index(there)]; }

  // For SimTransport.
  void started(Rank rank);
  void stopped(Rank rank, const Status& why);  // orderly: it tells the others, behind what it has sent
  void post(Rank rank, absl::AnyInvocable<void()> act);
  void carry_frame(Rank from, Rank to, Channel channel, Lane lane, absl::AnyInvocable<void()> arrive);
  void carry(Rank from, Rank to, std::int64_t bytes, absl::AnyInvocable<void()> arrive);
  SimTransport* transport_of(Rank rank) { return ranks_[index(rank)].transport; }

  std::uint64_t random();
  bool chance(double probability) { return static_cast<double>(random() >> 11) * 0x1p-53 < probability; }
  std::int64_t delay_ns(Rank from, Rank to, std::int64_t bytes);
  void enqueue(Rank at, std::int64_t time_ns, Event event);
  bool can_step(const Process& process) const { return process.started && !process.stopped && !process.crashed && !process.paused; }
  void execute(Rank at, Moment moment, Event event);
  bool hears(Rank here, Rank there) const;
  void listen_again();                 // after whatever may have changed who hears whom
  void arm(Rank here, Rank there);
  void take_for_down(Rank here, Rank there, const Status& cause);
  void drop_all_for(Rank rank);

  const Clock& clock_;
  const SimNetworkOptions options_;
  const std::string name_ = "network";
  std::vector<Process> ranks_;
  std::vector<Pair> pairs_;  // [here][there]
  Queue schedule_;
  Rank progress_{-1};        // whose progress thread we are on
  std::uint64_t drawn_ = 0, numbered_ = 0;
  std::int64_t events_ = 0;
  std::uint64_t order_ = 0xcbf29ce484222325u;
};

}  // namespace troupe::comm
