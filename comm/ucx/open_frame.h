// What is under way on the progress thread: frames sent, bulks that have come, bulks being fetched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "comm/transport.h"

namespace troupe::comm {

class UcxCore;
struct Peer;

// Objects that UCX knows by pointer until it calls back. Adds and takes in constant time, in no order.
template <class T>
class OpenSet {
 public:
  T* add(std::unique_ptr<T> item) {
    item->place = items_.size();
    item->home = this;
    items_.push_back(std::move(item));
    return items_.back().get();
  }
  std::unique_ptr<T> take(T* item) {
    const std::size_t place = item->place;
    std::unique_ptr<T> taken = std::move(items_[place]);
    if (place + 1 != items_.size()) {
      items_[place] = std::move(items_.back());
      items_[place]->place = place;
    }
    items_.pop_back();
    return taken;
  }
  std::unique_ptr<T> take_any() { return empty() ? nullptr : take(items_.back().get()); }
  bool empty() const { return items_.empty(); }
  const std::vector<std::unique_ptr<T>>& items() const { return items_; }

 private:
  std::vector<std::unique_ptr<T>> items_;
};

struct OpenSend {
  Rank to;
  Channel channel = Channel::kTest;
  Lane lane = Lane::kControl;
  std::vector<std::byte> bytes;  // wire header and the frame's; UCX reads it until the end
  std::span<const std::byte> bulk;
  Completion sent;

  std::uint64_t sequence = 0;
  bool refused = false;  // the receiver has said so
  bool cut_short = false;  // the receiver is stopping; why comes with its bye
  // A bulk in pieces: the frame itself takes the first, each other is an OpenSend of its own that names the
  // frame as its `whole`.
  OpenSend* whole = nullptr;
  std::size_t posted_bytes = 0;
  int pieces_open = 0;
  Status failed;
  UcxCore* core = nullptr;
  Peer* peer = nullptr;
  std::size_t place = 0;
  OpenSet<OpenSend>* home = nullptr;
};

struct OpenFetch {
  std::byte* into = nullptr;
  Completion fetched;
  Lane lane = Lane::kControl;
  Channel channel = Channel::kTest;
  std::uint64_t sequence = 0;
  std::uint64_t bytes = 0, asked_bytes = 0,
                come_bytes = 0;  // in all; of pieces that came; of those that are in place
  int pulls_open = 0;            // what UCX is doing
  Status failed;
  UcxCore* core = nullptr;
  Peer* peer = nullptr;
  std::size_t place = 0;
  OpenSet<OpenFetch>* home = nullptr;
};

// A later piece of a bulk.
struct HeldBulk;
struct PieceCame {
  std::uint64_t offset = 0;
  std::shared_ptr<HeldBulk> piece;
};

// A bulk that has come, or is offered, and that nobody has fetched; or a later piece of one that is being
// fetched.
struct HeldBulk {
  enum class Form : std::uint8_t {
    kOffered,  // rendezvous: the bytes are still at the sender's; `data` is UCX's descriptor
    kLent,     // eager, in UCX's memory at `data`
    kCopied,   // eager, in `copy`: UCX needed its memory back
    kOwn,      // a frame to oneself: in the sender's buffer
  };
  Form form = Form::kCopied;
  Peer* peer = nullptr;
  Lane lane = Lane::kControl;
  Channel channel = Channel::kTest;
  std::uint64_t sequence = 0;
  void* data = nullptr;
  std::vector<std::byte> copy;
  std::unique_ptr<OpenSend> own;
  std::vector<PieceCame> early;  // where UCX sent the first piece eagerly the sender goes on before the fetch
  std::int64_t bytes = 0;        // of the whole bulk
  std::size_t here_bytes = 0;    // of this piece
  bool settled = false;          // fetched, released or lost: nothing is left to do
  bool refused = false;          // dropped; the sender has been told and has not answered yet
  std::size_t place = 0;         // in the core's list
};

// A frame on its way to its handler.
struct Arrived {
  Rank from;
  Channel channel = Channel::kTest;
  std::vector<std::byte> header;
  std::shared_ptr<HeldBulk> bulk;  // none: the frame has no bulk
};

}  // namespace troupe::comm
