// What every measured rank does, whatever it measures: tells its address, hears all addresses, starts its transport, answers orders.
//
// Threads: serve and result by the one that serves; finish by any. Errors: fatal.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

#include "comm/ucx/ucx_transport.h"
#include "tests/bench/comm_rank.h"

namespace troupe::bench {

using Samples = std::vector<std::int64_t>;  // ns

double percentile(Samples samples, double rank);  // in seconds; of at least one

class RankServer {
 public:
  RankServer(int socket, const LinkOptions& options) : socket_(socket), options_(options) {}

  // Until `socket` is closed. `answer`: seconds for an order.
  void serve(comm::UcxTransport& transport, const std::function<double(const Order&)>& answer);

  // From other threads to the one that serves: the last thing that a measurement does.
  void finish(Samples samples);
  Samples result();
  bool finished_until(std::chrono::steady_clock::time_point due);

 private:
  const int socket_;
  const LinkOptions options_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable has_finished_;
  std::deque<Samples> finished_;
};

}  // namespace troupe::bench
