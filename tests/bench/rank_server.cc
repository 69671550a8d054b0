#include "tests/bench/rank_server.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/base/clock.h"

namespace troupe::bench {

double percentile(Samples samples, double rank) {
  TROUPE_CHECK(!samples.empty()) << "nothing was measured";
  std::sort(samples.begin(), samples.end());
  return seconds(samples[static_cast<std::size_t>(rank * static_cast<double>(samples.size() - 1))]);
}

void RankServer::serve(comm::UcxTransport& transport, const std::function<double(const Order&)>& answer) {
  const std::string& address = transport.address();
  say(address.data(), address.size());
  std::vector<std::string> addresses;
  while (addresses.size() < static_cast<std::size_t>(options_.ranks)) {
    std::array<char, 65536> packet{};
    const ssize_t bytes = recv(socket_, packet.data(), packet.size(), 0);
    if (bytes <= 0) return;
    addresses.emplace_back(packet.data(), static_cast<std::size_t>(bytes));
  }
  transport.set_peers(std::move(addresses));
  const Status started = transport.start();
  TROUPE_CHECK(started.ok()) << started;
  double said = 0;
  say(&said, sizeof said);
  for (Order order; recv(socket_, &order, sizeof order, 0) == static_cast<ssize_t>(sizeof order);) {
    said = answer(order);
    say(&said, sizeof said);
  }
}

void RankServer::say(const void* packet, std::size_t bytes) {
  TROUPE_CHECK(send(socket_, packet, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes)) << "who asked is gone";
}

void RankServer::finish(Samples samples) {
  std::lock_guard lock(mutex_);
  finished_.push_back(std::move(samples));
  has_finished_.notify_one();
}

bool RankServer::finished_until(std::chrono::steady_clock::time_point due) {
  std::unique_lock lock(mutex_);
  return has_finished_.wait_until(lock, due, [this] { return !finished_.empty(); });
}

Samples RankServer::result() {
  std::unique_lock lock(mutex_);
  has_finished_.wait(lock, [this] { return !finished_.empty(); });
  Samples taken = std::move(finished_.front());
  finished_.pop_front();
  return taken;
}

}  // namespace troupe::bench
