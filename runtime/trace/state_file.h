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

// A line for each actor that is not idle, and for each that has failed; so many bytes at most.
std::string state_text(const Snapshot& snapshot, std::size_t bytes_most = kStateBytesMost);

class StateFile {
 public:
  // `text` is called by the maker, then on this object's thread until it is destroyed; at most kStateBytesMost of it are read.
  explicit StateFile(std::function<std::string()> text);
  ~StateFile();
  StateFile(const StateFile&) = delete;
  StateFile& operator=(const StateFile&) = delete;

 private:
  void write() const;

  const std::string path_;
  const std::function<std::string()> text_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::thread thread_;
};

// For the launcher: the text with its age; empty if the rank wrote none.
std::string read_state(const std::string& path);

}  // namespace troupe::trace
