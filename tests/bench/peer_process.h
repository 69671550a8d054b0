// A peer that trains in a process of its own and does a step when it is told to (peers/README.md has the protocol).
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace troupe::bench {

class PeerProcess {
 public:
  // Blocks until the peer is ready, warm-up included. Errors: kNotFound, kUnavailable with what it said.
  static StatusOr<PeerProcess> start(const std::string& python, const std::string& script, const std::vector<std::string>& arguments);
  PeerProcess(PeerProcess&& other) noexcept;
  PeerProcess& operator=(PeerProcess&&) = delete;
  ~PeerProcess();

  StatusOr<double> run_step();  // tokens/s
  const std::string& description() const { return description_; }

 private:
  PeerProcess() = default;
  StatusOr<std::string> read_line();

  int pid_ = -1;
  std::FILE* to_ = nullptr;
  std::FILE* from_ = nullptr;
  std::string description_;
};

// Tokens/s of a peer started for this: the median of three steps, or the first alone if it has not half of `best`.
StatusOr<double> trial_of_peer(const std::string& python, const std::string& script, const std::vector<std::string>& arguments, double best);

}  // namespace troupe::bench
