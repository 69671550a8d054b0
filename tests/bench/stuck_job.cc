#include "tests/bench/stuck_job.h"

#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actors/inspect/inspector.h"
#include "runtime/actor/edge.h"
#include "runtime/actor/system.h"
#include "runtime/base/check.h"
#include "tests/bench/forked.h"

namespace troupe::bench {
namespace {

using namespace troupe::actor;

struct Token {
  int number = 0;
};
struct Hang {};
struct End {};

class Stuck final : public Actor {
 public:
  explicit Stuck(std::mutex& held) : held_(held) {
    on(&Stuck::hang);
    on(&Stuck::end);
  }
  In<Token> in{*this, "in", &Stuck::came};
  Out<Token> out{*this, "out"};

 private:
  void started() override {
    out.send(Token{});
    set_state(trace::State::kWaitingForCredit, out.trace_name());
  }
  void came(Delivery<Token> token) { kept_ = std::move(token); }
  void hang(Hang) { const std::lock_guard until_the_end(held_); }  // what a handler must never do
  void end(End) { stop(); }

  std::mutex& held_;
  Delivery<Token> kept_;
};

}  // namespace

void serve_stuck_job(int socket, int actors, const std::string& job) {
  constexpr int kWorkers = 2;
  std::mutex held;
  System system({.threads = kWorkers});
  std::vector<Stuck*> all;
  for (int i = 0; i < actors; ++i) all.push_back(&system.add<Stuck>(absl::StrCat("stuck-", i), held));
  for (std::size_t i = 0; i < all.size(); ++i) connect(all[i]->out, all[(i + 1) % all.size()]->in, {.credits = 1});
  const actors::Inspector inspector({.job = job, .program = "bench", .ranks = {{.rank = Rank(0), .probes = &system.probes()}}});
  held.lock();
  system.start();
  const auto handled = [&] {
    std::int64_t sum = 0;
    for (const auto& row : system.probes().snapshot().actors) sum += row.handled;
    return sum;
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (trace::kProbes && handled() < actors) {
    TROUPE_CHECK(std::chrono::steady_clock::now() < deadline) << "of " << actors << " actors only " << handled() << " have had their message after a minute";
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  for (int i = 0; i < kWorkers; ++i) all[static_cast<std::size_t>(i)]->self().send(Hang{});
  send_packet(socket, "ready");
  (void)next_packet(socket);
  held.unlock();
  for (auto* actor : all) actor->self().send(End{});
  const Status status = system.wait();
  TROUPE_CHECK(status.ok()) << status;
}

}  // namespace troupe::bench
