#include "tests/bench/rank_server.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/base/clock.h"
#include "tests/bench/forked.h"

namespace troupe::bench {

double percentile(Samples samples, double rank) {
  TROUPE_CHECK(!samples.empty()) << "nothing was measured";
  std::sort(samples.begin(), samples.end());
  return seconds(samples[static_cast<std::size_t>(rank * static_cast<double>(samples.size() - 1))]);
}

void RankServer::serve(comm::UcxTransport& transport, const std::function<double(const Order&)>& answer) {
  send_packet(socket_, transport.address());
  std::vector<std::string> addresses;
  while (addresses.size() < static_cast<std::size_t>(options_.ranks)) {
    addresses.push_back(next_packet(socket_));
    if (addresses.back().empty()) return;
  }
  transport.set_peers(std::move(addresses));
  const Status started = transport.start();
  TROUPE_CHECK(started.ok()) << started;
  const auto say = [this](double seconds) { send_packet(socket_, {reinterpret_cast<const char*>(&seconds), sizeof seconds}); };
  say(0);
  for (std::string packet = next_packet(socket_); !packet.empty(); packet = next_packet(socket_)) {
    Order order;
    TROUPE_CHECK(packet.size() == sizeof order) << packet.size() << " bytes are no order";
    std::copy(packet.begin(), packet.end(), reinterpret_cast<char*>(&order));
    say(answer(order));
  }
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
