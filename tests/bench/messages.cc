#include "tests/bench/messages.h"

#include <algorithm>
#include <cmath>

#include "runtime/actor/bare_ping_pong.h"
#include "runtime/actor/system.h"
#include "runtime/base/check.h"
#include "runtime/base/clock.h"

namespace troupe::bench {
namespace {

using namespace troupe::actor;

struct Ball {
  int left;
};
struct Serve {
  Ref to;
};

class Player final : public Actor {
 public:
  Player() {
    on(&Player::serve);
    on(&Player::ball);
  }
  void meet(const Ref& other) { other_ = other; }
  void serve(Serve) { send(other_, Ball{messages}); }
  void ball(Ball ball) {
    if (ball.left > 0) send(other_, Ball{ball.left - 1});
    if (ball.left <= 1) stop();
  }
  int messages = 0;

 private:
  Ref other_;
};

double ours_per_s(const MessagesOptions& options) {
  System system({.threads = options.threads});
  auto& a = system.add<Player>("a");
  auto& b = system.add<Player>("b");
  a.meet(b.self());
  b.meet(a.self());
  a.messages = options.messages;
  system.start();
  const SteadyClock clock;
  const std::int64_t begin = clock.now_ns();
  a.self().send(Serve{});
  const Status status = system.wait();
  TROUPE_CHECK(status.ok()) << status;
  return options.messages / seconds(clock.now_ns() - begin);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

}  // namespace

std::vector<BenchRow> bench_messages(const MessagesOptions& options) {
  TROUPE_CHECK(options.pairs >= 7) << options.pairs << " pairs: a median needs at least 7";
  std::vector<double> ours, bare, ratios, against_itself;
  ours_per_s(options);  // warm: pages, allocator, the clock's calibration
  bare_ping_pong_per_s(options.messages, options.threads);
  for (int i = 0; i < options.pairs; ++i) {
    ours.push_back(ours_per_s(options));
    bare.push_back(bare_ping_pong_per_s(options.messages, options.threads));
    ratios.push_back(ours.back() / bare.back());
    against_itself.push_back(bare_ping_pong_per_s(options.messages, options.threads) / bare.back());
  }
  double spread = 0;
  for (const double ratio : against_itself) spread = std::max(spread, std::abs(ratio - median(against_itself)));
  return {
      {"messages.ratio", median(ratios), "x", 0.90, 0,
       "messages/s of ping-pong of two instrumented actors over the same in bare CAF, both policy sharing, median of interleaved pairs"},
      {"messages.per_s", median(ours), "1/s", 0, median(bare), "messages/s of that ping-pong, median; peer: bare CAF"},
      {"messages.spread", spread, "x", 0, 0, "largest distance of a (bare / bare) pair from the median of such pairs: the noise"},
  };
}

}  // namespace troupe::bench
