// What the progress thread of a UCX transport does: the loop, the peers, the frames on their way in and out.
//
// Nothing of the caller's runs inside a UCX callback: callbacks only put what they learned into `ready_`, and
// the loop runs handlers and completions between two rounds of progress. So a handler may send and fetch, and
// UCX is never entered twice. Threads: listen, set_peers, handle, on_peer_down before run(); counters by any;
// the rest by the thread in run(), or by who has borrowed its place (run_errand). Handlers are set before open_channels(), which may come while it runs. Owns: the workers, their endpoints, everything open (open_frame.h).
// Invariants: a completion is called once (UcxTransport.StopCompletesEverySendOnce); after the failure of a peer
// nothing is posted to it.
#pragma once

#include <ucp/api/ucp.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "comm/transport.h"
#include "comm/ucx/inbox.h"
#include "comm/ucx/open_frame.h"
#include "comm/ucx/pulse.h"
#include "comm/ucx/sequencer.h"
#include "comm/ucx/ucx_transport.h"
#include "comm/ucx/ucx_worker.h"
#include "comm/ucx/wire.h"
#include "runtime/base/clock.h"

namespace troupe::comm {

inline constexpr std::size_t kLanes = 2;
inline constexpr unsigned kFrameMessage = 0,
                          kPieceMessage = 1;  // UCX's active message ids, on each lane's worker
using UcxWorkers = std::array<std::unique_ptr<UcxWorker>, kLanes>;  // by lane

struct Peer {
  Rank rank;
  UcxCore* core = nullptr;

  std::array<std::string, kLanes> addresses;
  std::array<ucp_ep_h, kLanes> endpoints{};
  std::array<std::array<std::uint64_t, kChannels>, kLanes> next_sequence{};
  std::array<std::array<Sequencer<Arrived>, kChannels>, kLanes> arrivals;
  OpenSet<OpenSend> sends;
  std::deque<OpenSend*>
      in_pieces;  // bulks that are wanted and have pieces left, in the order in which they go
  int pieces_open = 0;
  OpenSet<OpenFetch> fetches;

  bool heard = false;
  bool heartbeat_open = false;
  std::size_t byes = 0;   // lanes on which it said that it stops
  bool bye_seen = false;  // it has heard that we stop
  Status cause;           // not ok: down
  std::array<ucs_status_ptr_t, kLanes> closing{};
  std::int64_t closing_until_ns = 0;

  bool down() const { return !cause.ok(); }
  bool connected() const { return endpoints[0] != nullptr; }
};

class UcxCore {
 public:
  UcxCore(const UcxOptions& options, UcxWorkers workers, std::shared_ptr<Inbox> inbox);
  ~UcxCore();

  Status listen();
  std::string address() const;
  void set_peers(std::vector<std::string> addresses);
  void handle(Channel channel, Transport::Handler handler) {
    handlers_[static_cast<std::size_t>(channel)] = std::move(handler);
  }
  void on_peer_down(Transport::PeerDown handler) { peer_down_ = std::move(handler); }

  // What comes on the channels, and who goes down, waits until this was called: before run(), or on its thread.
  void open_channels();
  // Heartbeats to the next rank from now on, on its thread: when all do so, somebody watches everyone, whether he is sent anything or not.
  void watch_next();
  const Status& next_status() { return next().cause; }  // not ok: down
  // Until the inbox is stopped; shuts down before it returns.
  void run();
  // For a transport that was never started, too.
  void shut_down();
  // What the bye says. Before the inbox is stopped, or before shut_down().
  void leave_because(const Status& why) { why_ = why; }

  void submit(std::unique_ptr<OpenSend> open);
  // A frame without bulk from who has borrowed the thread's place (inbox.h): posted if nothing but that is to be done.
  enum class Errand : std::uint8_t { kNotTaken, kDone, kGoesOn };  // goes on: with a completion, or within UCX, which the thread must see to
  Errand run_errand(std::unique_ptr<OpenSend>& open);
  void fetch(const std::shared_ptr<HeldBulk>& held, std::byte* into, Completion fetched);
  void drop(const std::shared_ptr<HeldBulk>& held);
  Counters counters() const;

 private:
  struct Finished {
    Completion completion;
    Status status;
  };
  struct Failed {  // UCX gives a peer up
    Peer* peer;
    ucs_status_t status;
  };
  struct Down {  // to be told to the owner
    Peer* peer;
  };
  using Ready = std::variant<Arrived, PieceCame, Finished, Failed, Down>;

  // UCX calls these during progress, or while a request is made.
  template <Lane lane, bool piece>
  static ucs_status_t on_message(void* core, const void* header, std::size_t header_bytes, void* data,
                                 std::size_t bytes, const ucp_am_recv_param_t* param);
  static void on_sent(void* request, ucs_status_t status, void* open);
  static void on_fetched(void* request, ucs_status_t status, std::size_t bytes, void* open);
  static void on_error(void* peer, ucp_ep_h endpoint, ucs_status_t status);

  struct Message {  // as UCX delivers it
    Lane lane;
    std::span<const std::byte> head;
    void* data;
    std::size_t bytes;
    bool offered, lent;
  };
  ucs_status_t take_in(const Message& message, bool is_piece);
  std::shared_ptr<HeldBulk> held_of(const Message& message, const WireHeader& header);
  ucs_status_t keep(const Message& message, std::shared_ptr<HeldBulk> held);
  void refuse(Refusal refusal);

  // One round of the loop. True: there was something to do.
  bool work();
  bool progress();
  bool arm();
  bool run_commands();
  bool run_ready();
  void sleep();
  void tick();

  void act(Arrived arrived);
  void act(PieceCame came);
  void act(Finished finished);
  void act(Failed failed);
  void act(Down down);
  void take_note(Peer& peer, std::span<const std::byte> bytes);

  UcxWorker& worker(Lane lane) { return *workers_[static_cast<std::size_t>(lane)]; }
  Peer& peer(Rank rank) { return peers_[static_cast<std::size_t>(rank.value)]; }
  Peer& next() { return peer(Rank{(options_.rank.value + 1) % options_.world}); }
  bool connect(Peer& peer);
  void submit_to_self(std::unique_ptr<OpenSend> open);
  void note(Peer& peer, Lane lane, const Note& note, Completion sent = {});
  void post(Peer& to, std::unique_ptr<OpenSend> open, std::span<const std::byte> bulk,
            std::uint64_t bulk_bytes);
  void posted(OpenSend* open, ucs_status_t status);
  void pump(Peer& to);
  Status failure(const Peer& peer, ucs_status_t status) const;
  void finish(OpenSend* open);
  void pull(HeldBulk& held, OpenFetch* open, std::uint64_t offset);
  void pulled(OpenFetch* open, ucs_status_t status, std::size_t bytes);
  void finish(OpenFetch* open);
  void hold(std::shared_ptr<HeldBulk> held);
  void settle(HeldBulk& held);
  void release(HeldBulk& held);
  void fail(Peer& peer, Status cause);
  void reap_closing();
  void complete_all(Peer& peer);
  void release_offers_of(const Peer& peer);
  void let_go();
  bool bye_awaited() const;
  bool fetching() const;
  void say_bye();
  void abandon_commands(std::vector<Inbox::Command> commands);

  const UcxOptions options_;
  const SteadyClock clock_;
  UcxWorkers workers_;
  const std::shared_ptr<Inbox> inbox_;
  WireReader reader_;
  std::deque<Peer> peers_;  // by rank; they stay where they are, UCX knows them
  Pulse pulse_;
  std::array<Transport::Handler, kChannels> handlers_;
  Transport::PeerDown peer_down_;

  std::deque<Ready> ready_, early_;  // early: for handlers that are not there yet
  std::vector<std::shared_ptr<HeldBulk>>
      held_;  // what is not settled: UCX wants its memory back, a sender its completion
  std::vector<Peer*> closing_;
  OpenSet<OpenSend> orphan_sends_;  // completed for the owner, not yet for UCX
  OpenSet<OpenFetch> orphan_fetches_;
  std::int64_t now_ns_ = 0, next_tick_ns_ = 0;
  bool open_ = false, stopping_ = false, shut_ = false;
  Status why_;  // of the stop
  std::array<bool, kRefusals> refusal_logged_{};

  struct {
    std::atomic<std::int64_t> frames_sent{0}, frames_received{0}, bulk_bytes_sent{0}, bulk_bytes_received{0},
        refused{0};
  } counted_;
};

}  // namespace troupe::comm
