#include "tests/bench/messages.h"

#include <algorithm>
#include <cmath>
#include <string>

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
struct Serve {};
struct GameOver {};

class Player final : public Actor {
 public:
  Player() {
    on(&Player::serve);
    on(&Player::ball);
    on(&Player::game_over);
  }
  void play_with(const Ref& other, int balls, int hops) {
    other_ = other;
    balls_ = balls;
    hops_ = hops;
  }
  void serve(Serve) {
    for (int i = 0; i < balls_; ++i) send(other_, Ball{hops_});
  }
  void ball(Ball ball) {
    if (ball.left > 0) {
      send(other_, Ball{ball.left - 1});
    } else if (++finished_ == balls_) {  // hops_ is odd: all end at who served
      send(other_, GameOver{});
      stop();
    }
  }
  void game_over(GameOver) { stop(); }

 private:
  Ref other_;
  int balls_ = 0, hops_ = 0, finished_ = 0;
};

double ours_per_s(int balls, int hops, int threads) {
  System system({.threads = threads});
  auto& a = system.add<Player>("a");
  auto& b = system.add<Player>("b");
  a.play_with(b.self(), balls, hops);
  b.play_with(a.self(), balls, hops);
  system.start();
  const SteadyClock clock;
  const std::int64_t begin = clock.now_ns();
  a.self().send(Serve{});
  const Status status = system.wait();
  TROUPE_CHECK(status.ok()) << status;
  return static_cast<double>(balls) * hops / seconds(clock.now_ns() - begin);
}

// Odd: all end at who served.
int hops_of(int balls, const MessagesOptions& options) { return options.messages / balls / 2 * 2 + 1; }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

}  // namespace

double messages_per_s(int balls, const MessagesOptions& options) { return ours_per_s(balls, hops_of(balls, options), options.threads); }

namespace {

void measure(const std::string& name, int balls, const MessagesOptions& options,
             std::vector<BenchRow>& rows) {
  const int hops = hops_of(balls, options);
  const auto ours = [&] { return messages_per_s(balls, options); };
  const auto bare = [&] { return bare_ping_pong_per_s(balls, hops, options.threads); };
  ours();  // warm: pages, allocator, the clock's calibration
  bare();
  std::vector<double> ours_all, bare_all, ratios, against_itself;
  for (int i = 0; i < options.pairs; ++i) {
    ours_all.push_back(ours());
    bare_all.push_back(bare());
    ratios.push_back(ours_all.back() / bare_all.back());
    against_itself.push_back(bare() / bare_all.back());
  }
  double spread = 0;
  const double middle = median(against_itself);
  for (const double ratio : against_itself) spread = std::max(spread, std::abs(ratio - middle));
  const std::string what =
      " of ping-pong of two actors on two workers, policy sharing, " + std::to_string(balls) + " in flight";
  rows.push_back({"messages." + name + ".ratio", median(ratios), "x", 0.90, 0,
                  "messages/s of ours (probes on) over bare CAF's" + what + "; median of interleaved pairs"});
  rows.push_back({"messages." + name + ".per_s", median(ours_all), "1/s", 0, median(bare_all),
                  "messages/s" + what + "; peer: bare CAF"});
  rows.push_back(
      {"messages." + name + ".spread", spread, "x", 0, 0,
       "largest distance of a (bare / bare) pair from the median of such pairs: the noise" + what});
}

}  // namespace

std::vector<BenchRow> bench_messages(const MessagesOptions& options) {
  TROUPE_CHECK(options.pairs >= 7) << options.pairs << " pairs: a median needs at least 7";
  std::vector<BenchRow> rows;
  measure("one", 1, options, rows);
  measure("many", kManyBalls, options, rows);
  return rows;
}

}  // namespace troupe::bench
