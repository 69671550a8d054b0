// What a rank's actors do, written down often enough that its launcher can say it when the rank has died: also of SIGKILL.
//
// The launcher names a file in memory in TROUPE_STATE_FILE; the rank replaces it twice a second by a text for people, from a thread of its
// own that reads the probes: an actor that is stuck is seen, too. Without that variable nothing is written.
// Threads: one creates and destroys. Limits: kStateBytesMost of text.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/trace/snapshot.h"

namespace troupe::trace {

inline constexpr const char* kStateFileVariable = "TROUPE_STATE_FILE";
inline constexpr std::size_t kStateBytesMost = 8 << 10;

// A line for each actor that is not idle, and for each that has failed.
std::string state_text(const Snapshot& snapshot);

class StateFile {
 public:
  // `snapshot` is called on this object's thread until it is destroyed.
  explicit StateFile(std::function<Snapshot()> snapshot);
  ~StateFile();
  StateFile(const StateFile&) = delete;
  StateFile& operator=(const StateFile&) = delete;

 private:
  void write() const;

  const std::string path_;
  const std::function<Snapshot()> snapshot_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::thread thread_;
};

// For the launcher: the text with its age; empty if the rank wrote none.
std::string read_state(const std::string& path);

}  // namespace troupe::trace
