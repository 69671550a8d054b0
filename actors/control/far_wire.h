// How the ends of edges between processes speak with each other: frames that name their edge, and which end of this process they are for.
//
// A frame: [u64 number of the edge][u32 slot], then of a message [u64 sequence][fields] with its tensor as bulk; of a slot that goes back
// nothing more. Threads: add before the transport starts, arrive and peer_down on its progress thread, send by any. Owns: nothing.
// Errors: a frame for an edge that is not here is counted and said once; what an end says against a frame fails that end.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actors/control/fields.h"
#include "comm/transport.h"
#include "runtime/actor/ref.h"
#include "runtime/base/first_cause.h"
#include "runtime/device/stream.h"

namespace troupe::actors {

// The end is over: its peer is down, or has broken the protocol.
struct FarEdgeFailed {
  Status cause;
};

// What the progress thread knows of one end.
class FarEnd {
 public:
  FarEnd(Rank peer, std::string name) : peer_(peer), name_(std::move(name)) {}
  virtual ~FarEnd() = default;
  // A frame of this edge from its peer: `rest` is what follows the edge's number. Not ok: the frame breaks the protocol.
  virtual Status arrive(comm::Arrival arrival, FieldReader rest) = 0;
  virtual const actor::Ref& actor() const = 0;

  Rank peer() const { return peer_; }
  const std::string& edge_name() const { return name_; }
  void fail_with(const Status& cause) const { actor().send(FarEdgeFailed{cause}); }

 protected:
  Status told(const Status& cause) const {
    return reworded(cause, absl::StrCat("edge ", name_, " with rank ", peer_.value, ": ", std::string(cause.message())));
  }

 private:
  const Rank peer_;
  const std::string name_;
};

class FarWire {
 public:
  static constexpr std::size_t kOwnBytes = 8 + 4 + 8;  // of a frame's header, before the message's fields

  // Takes the transport's channel of edges.
  FarWire(comm::Transport& transport, device::Stream& stream);
  FarWire(const FarWire&) = delete;
  FarWire& operator=(const FarWire&) = delete;

  void add(FarEnd& end);
  static std::vector<std::byte> header_of(const FarEnd& end, int slot);
  void send(const FarEnd& end, comm::Lane lane, std::span<const std::byte> header, std::span<const std::byte> bulk, comm::Completion sent);
  // All edges with `peer` fail.
  void peer_down(Rank peer, const Status& cause);

  // Waits for events in place of actors.
  device::Stream& stream() { return stream_; }
  // One that is reached: of what has been fetched.
  device::Event reached() const { return device::Event(reached_, 0); }
  std::int64_t refused() const { return refused_.load(); }

 private:
  void arrive(comm::Arrival arrival);

  comm::Transport& transport_;
  device::Stream& stream_;
  const std::shared_ptr<device::StreamProgress> reached_ = std::make_shared<device::StreamProgress>();
  std::map<std::uint64_t, FarEnd*> ends_;  // by number; fixed before the start
  std::atomic<std::int64_t> refused_{0};
};

}  // namespace troupe::actors
