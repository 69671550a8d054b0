// The place where the processes of a job meet before they can talk to each other, and hear of its end: keys, counters, barriers,
// one exchange of everybody's addresses, and abort(), which ends every wait of every client with the first cause. This is a
// process's side; store_server.h is the other, STORE.md the bytes between.
//
// Threads: one at a time; calls wait in it. Owns: its connection. One that closes without goodbye() tells the store that the rank
// is gone. Errors: kAborted the job has ended, and why; it stays so. kDeadlineExceeded what was waited for did not come, naming
// who or what is
//         missing. kUnavailable the store cannot be reached or went away. kPermissionDenied it does not know our secret.
//         kFailedPrecondition another program's build, named with ours. kInvalidArgument, kResourceExhausted beyond the limits.
//         kCancelled as Options::cancel says; the job can still be ended or left then.
// Limits: store_protocol.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/join/cancel.h"
#include "comm/join/frame.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"

namespace troupe::comm {

using Deadline = std::chrono::steady_clock::time_point;
inline Deadline after(std::chrono::nanoseconds duration) {
  return std::chrono::steady_clock::now() + std::chrono::duration_cast<Deadline::duration>(duration);
}

// Why a job ends before its time. Rank -1: it was none of the ranks.
struct StoreCause {
  Rank rank{-1};
  std::string reason;  // names the rank
  bool lost = false;   // it did not say so itself: its connection closed, or another rank lost it
};

class StoreClient {
 public:
  struct Options {
    std::string hosts;  // separated by commas, tried in turn until one answers; "@name": who listens there on this host
    int port = 0;
    std::string hosts_guess{};  // why `hosts` may be wrong, and what to do then; empty: they were said
    std::string secret;
    Rank rank;
    int world = 1;
    std::string build;  // of this program; all ranks' must be the same
    std::string relay_of;  // not empty: this is the relay of that host (store_relay.h)
    Deadline somebody_by = Deadline::max();  // kNotFound if nobody has listened there until then
    const Cancel* cancel = nullptr;          // ends every wait but those of abort() and goodbye()
  };

  // Tries again until the deadline while nobody listens there, or does but says nothing: each try has its share of the time.
  static StatusOr<std::unique_ptr<StoreClient>> connect(const Options& options, Deadline deadline);
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  Status set(const std::string& key, const std::string& value);
  // Waits until somebody has set the key.
  StatusOr<std::string> get(const std::string& key, Deadline deadline);
  // The counter (0 before) after n was added. Counters and values do not know each other's keys.
  StatusOr<std::int64_t> add(const std::string& key, std::int64_t n);
  // Waits until `count` ranks are at the barrier of this name; then the name can be used again.
  Status barrier(const std::string& name, int count, Deadline deadline);
  // Every rank's address, by rank, when the last one has come. Once in a job.
  StatusOr<std::vector<std::string>> exchange(const std::string& address, Deadline deadline);

  // Ends the job for all. `first`: the rank with which it began, ourselves or one whose end we heard of (-1: the launcher's). Ok when the
  // store has heard it, or had heard another cause before.
  Status abort(const std::string& reason, Rank first);
  // Leaves in order; afterwards only the destructor.
  Status goodbye();

  // kAborted if that has been heard, kUnavailable if the store has gone; never waits.
  Status check();
  const std::optional<StoreCause>& cause() const { return cause_; }
  // Readable when check() may have news that no call has read before; so check(), then wait.
  int descriptor() const { return fd_; }
  // For a relay, which speaks on itself: the connection, now the caller's, and what was read of it.
  struct Connection {
    int fd = -1;
    FrameSplitter splitter;
  };
  Connection release();

 private:
  StoreClient(Options options, int fd) : options_(std::move(options)), fd_(fd) {}
  Status greet(Deadline heard_by, Deadline deadline);
  Status send(std::string_view bytes, Deadline deadline);
  StatusOr<std::string> receive(Deadline deadline);
  Status read_some();
  // Sends the request and waits for a frame that answers it.
  StatusOr<std::string> ask(std::uint32_t id, std::string request, Deadline deadline);
  StatusOr<FrameReader> answer(const std::string& frame);
  Status note_aborted(const std::string& frame);
  FrameWriter request(std::uint8_t type, std::uint32_t& id, Deadline deadline);
  Status fail(Status status);
  // Why a wait has ended without what it waited for: kCancelled, or kDeadlineExceeded and what `where()` did.
  Status gave_up(const char* did) const;
  std::string where() const;
  // kUnavailable, or kAborted if a relay has gone whose process was a rank.
  Status over(const Status& broken);

  Options options_;
  int fd_;
  Rank relay_rank_{-1};     // whose process runs the relay that we came through, if it is a rank's
  std::string relay_name_;  // empty: we came to the store itself
  FrameSplitter splitter_;
  std::uint32_t last_id_ = 0;
  Status failed_;  // the first error after which nothing goes any more
  std::optional<StoreCause> cause_;
};

}  // namespace troupe::comm
