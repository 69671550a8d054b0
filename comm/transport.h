// What carries frames between the processes (ranks) of a job: the seam behind which UCX, threads and the simulated network stand.
//
// A frame is a small header and, where it has one, a bulk: bytes of a pooled buffer that go straight into a pooled buffer of the
// receiver. The receiver learns of a frame before its bulk has moved (Arrival) and fetches the bulk when it has a place for it, at
// once or later; so nothing is copied on the way and nobody is sent more than he can take. Two lanes: control never waits behind bulk.
//
// Threads: one progress thread per transport, which alone runs handlers, completions and posted functions; none of them may block.
//          send, post and counters by any thread. handle and on_peer_down before start.
// Owns: nothing of the caller's: a bulk stays where it is until its completion was called, its header is copied.
// Order: frames of one channel and lane from one rank arrive in the order in which they were sent; their fetches may end in another.
// Errors: a completion gets kUnavailable when the peer is down or the transport stops, kCancelled when the receiver did not want the
//         bulk. What is sent, fetched or posted after stop() has returned is dropped and its completion never called; of what is sent while
//         another thread is in stop() some is called and some is dropped. After a peer was reported down every send to it completes with the first cause; it is never up again. The cause has a
//         first_cause(): the peer, or the rank because of which the peer stopped.
//         Bad bytes from outside are counted (refused) and change nothing.
// Limits: a header has at most kHeaderBytesMost bytes; a bulk up to 2^62.
// Wire: kProtocolVersion counts every change of what goes between processes: ucx/WIRE.md, collective/WIRE.md, slices/WIRE.md, inspect/WIRE.md,
//       actors/control/WIRE.md. Each frame carries it; another one is refused by name and counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"

namespace troupe::comm {

enum class Lane : std::uint8_t { kControl, kBulk };

// Who takes a frame in the receiving process. The numbers travel: never reuse one.
enum class Channel : std::uint8_t { kTransport = 0, kActors = 1, kEdges = 2, kCollectives = 3, kSlices = 4, kInspect = 5, kTest = 15 };
inline constexpr int kChannels = 16;

inline constexpr std::uint16_t kProtocolVersion = 4;
inline constexpr std::size_t kHeaderBytesMost = 4096;

// Called once, on the progress thread.
using Completion = absl::AnyInvocable<void(Status)>;

// A frame that has come. Move it away to fetch its bulk later; one that dies unfetched refuses its bulk.
class Arrival {
 public:
  // What a filling knows of a bulk that has not been fetched.
  class Bulk {
   public:
    virtual ~Bulk() = default;  // unfetched: the sender's completion gets kCancelled
    virtual void fetch(std::byte* into, Completion fetched) = 0;
  };
  Arrival(Rank from, std::span<const std::byte> header, std::int64_t bulk_bytes, std::unique_ptr<Bulk> bulk)
      : from_(from), header_(header), bulk_bytes_(bulk_bytes), bulk_(std::move(bulk)) {}

  Rank from() const { return from_; }
  std::span<const std::byte> header() const { return header_; }  // valid until the handler returns
  std::int64_t bulk_bytes() const { return bulk_bytes_; }
  // Once, on the progress thread, if bulk_bytes() > 0. `into` holds bulk_bytes() and stays until `fetched` was called.
  void fetch(std::byte* into, Completion fetched);

 private:
  Rank from_;
  std::span<const std::byte> header_;
  std::int64_t bulk_bytes_ = 0;
  std::unique_ptr<Bulk> bulk_;
};

struct Frame {
  Rank to;
  Channel channel = Channel::kTest;
  Lane lane = Lane::kControl;
  std::span<const std::byte> header{};
  std::span<const std::byte> bulk{};
  // ok: the bulk was taken (fetched, or copied on its way if small) and may be overwritten; without a bulk: the frame has left. May be
  // empty.
  Completion sent{};
};

// Since the start, of all peers together.
struct Counters {
  std::int64_t frames_sent = 0, frames_received = 0;
  std::int64_t bulk_bytes_sent = 0, bulk_bytes_received = 0;
  std::int64_t refused = 0;  // frames of strangers, other jobs, former incarnations, or that are no frames
};

class Transport {
 public:
  using Handler = absl::AnyInvocable<void(Arrival)>;
  using PeerDown = absl::AnyInvocable<void(Rank, const Status& cause)>;

  virtual ~Transport() = default;  // stop()s
  virtual Rank rank() const = 0;
  virtual int world() const = 0;   // ranks are 0 .. world - 1

  // A channel without handler refuses its frames.
  virtual void handle(Channel channel, Handler handler) = 0;
  virtual void on_peer_down(PeerDown handler) = 0;
  virtual Status start() = 0;

  // To any rank, oneself included.
  virtual void send(Frame frame) = 0;
  // Soon, on the progress thread, in order.
  virtual void post(absl::AnyInvocable<void()> function) = 0;
  virtual bool on_progress_thread() const = 0;

  // Every open completion gets kUnavailable; afterwards nothing is called any more, and nothing touches a bulk or its place. Not from the progress thread. `why`, if it is not ok, is
  // what the peers hear as the cause (departure()), as far as a link still holds; at most kReasonBytesMost bytes of it.
  virtual void stop(const Status& why = ok()) = 0;
  virtual Counters counters() const = 0;
};

inline constexpr std::size_t kReasonBytesMost = 1024;
// What a peer of `rank` gets as the cause when that stops its transport: with the first cause of `why`, or with `rank` as that.
Status departure(Rank rank, const Status& why);

}  // namespace troupe::comm
