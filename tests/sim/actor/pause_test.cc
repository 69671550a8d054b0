// Actors are paused, stepped and let go at random moments of virtual time: nothing is lost, nothing overtakes, nothing spins.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "runtime/actor/sim_world.h"
#include "tests/sim/seeds.h"

namespace troupe::actor {
namespace {

struct Piece {
  int number;
};
struct PieceNoted {};

constexpr int kPieces = 60;

class PieceSource final : public Actor {
 public:
  PieceSource() { out.on_credit(&PieceSource::give); }
  void started() override { give(); }
  void give() {
    while (out.ready() && next_ < kPieces) out.send(Piece{next_++});
  }
  Out<Piece> out{*this, "out"};

 private:
  int next_ = 0;
};

// Holds each piece for a while, by a timer of its own, and passes them on in their order.
class PieceRelay final : public Actor {
 public:
  PieceRelay() {
    on(&PieceRelay::due);
    out.on_credit(&PieceRelay::pass);
  }
  void take(Delivery<Piece> piece) {
    held_.push_back(std::move(piece));
    send_after(std::chrono::microseconds(2 + piece.message.number % 3), PieceNoted{});
  }
  void due(PieceNoted) {
    ++due_;
    pass();
  }
  void pass() {
    while (due_ > 0 && !held_.empty() && out.ready()) {
      out.send(held_.front().message);
      held_.erase(held_.begin());
      --due_;
    }
  }
  In<Piece> in{*this, "in", &PieceRelay::take};
  Out<Piece> out{*this, "out"};

 private:
  std::vector<Delivery<Piece>> held_;
  int due_ = 0;
};

class PieceSink final : public Actor {
 public:
  void take(Delivery<Piece> piece) {
    seen.push_back(piece.message.number);
    if (static_cast<int>(seen.size()) == kPieces) finish_job();
  }
  In<Piece> in{*this, "in", &PieceSink::take};
  std::vector<int> seen;
};

struct PauseTrial {
  explicit PauseTrial(std::uint64_t seed) : world(seed), random(seed) {
    connect(source.out, relay.in, {.credits = 3});
    connect(relay.out, sink.in, {.credits = 2});
    world.start();
  }
  trace::ActorRow row(const std::string& name) {
    const auto probe = world.system().probes().find(name);
    trace::ActorRow gone;
    gone.state = trace::State::kEnded;
    return probe ? probe->row(world.system().probes().texts()) : gone;
  }
  bool ended() { return SimWorld::has_ended(world.system()); }
  void expect_counts_add_up() {
    for (const auto& name : names) {
      const auto seen = row(name);
      ASSERT_EQ(seen.sent, seen.handled + seen.dead + seen.depth) << name;
    }
    for (const auto& edge : world.system().probes().edges()) {
      ASSERT_EQ(edge->free.load() + static_cast<std::int64_t>(edge->taken.load() - edge->reclaimed.load()), edge->capacity) << edge->name;
    }
  }

  SimWorld world;
  std::mt19937_64 random;
  PieceSource& source = world.system().add<PieceSource>("source");
  PieceRelay& relay = world.system().add<PieceRelay>("relay");
  PieceSink& sink = world.system().add<PieceSink>("sink");
  const std::vector<std::string> names{"source", "relay", "sink"};
};

std::vector<int> all_pieces() {
  std::vector<int> all(kPieces);
  for (int i = 0; i < kPieces; ++i) all[static_cast<std::size_t>(i)] = i;
  return all;
}

TEST(PauseSim, AnyPausesChangeNothingButTheTime) {
  for (std::uint64_t seed = 1; seed <= test::seeds(300, 30); ++seed) {
    SCOPED_TRACE(seed);
    PauseTrial trial(seed);
    std::map<std::string, std::int64_t> may_handle;  // the count that a paused actor may come to
    int told = 0;
    bool moved = true;
    while (!trial.ended()) {
      if (!moved || trial.random() % 8 == 0) {
        const std::string& name = trial.names[trial.random() % trial.names.size()];
        const auto what = static_cast<Control>(trial.random() % 3);
        if (trial.world.system().control(what, name).ok()) {
          ++told;
          if (what == Control::kResume) may_handle.erase(name);
          if (what == Control::kPause) may_handle.try_emplace(name, trial.row(name).handled);
          if (what == Control::kStep) ++may_handle.at(name);
        }
      }
      moved = trial.world.step();
      trial.expect_counts_add_up();
      for (const auto& [name, most] : may_handle) {
        const auto row = trial.row(name);
        if (row.state == trace::State::kEnded || trial.sink.seen.size() == kPieces) continue;  // the end ends the pauses
        ASSERT_EQ(row.state, trace::State::kPaused) << name;
        ASSERT_LE(row.handled, most) << name;
      }
      // Nobody but the paused has work while the world stands still: who is held back costs no turn.
      for (const auto& [name, most] : may_handle) ASSERT_TRUE(moved || trial.row(name).depth == 0 || trial.row(name).handled == most) << name;
      ASSERT_LT(trial.world.events(), 100'000);
    }
    EXPECT_EQ(trial.sink.seen, all_pieces());
    EXPECT_GT(told, 5);
  }
}

TEST(PauseSim, APausedActorLetsItsSendersRunOutOfCredits) {
  PauseTrial trial(1);
  ASSERT_TRUE(trial.world.system().control(Control::kPause, "sink").ok());
  while (trial.world.step()) {
  }
  EXPECT_EQ(trial.row("sink").state, trace::State::kPaused);
  EXPECT_EQ(trial.row("sink").depth, 3) << "its start, and as many as the edge has credits";
  for (const auto& edge : trial.world.system().probes().edges()) EXPECT_EQ(edge->free.load(), 0) << edge->name;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(trial.world.system().control(Control::kStep, "sink").ok());
    while (trial.world.step()) {
    }
    EXPECT_EQ(trial.row("sink").handled, i + 1);
  }
  EXPECT_THAT(trial.sink.seen, testing::ElementsAre(0, 1));
  ASSERT_TRUE(trial.world.system().control(Control::kResume, "sink").ok());
  while (trial.world.step()) {
  }
  EXPECT_EQ(trial.sink.seen, all_pieces());
  EXPECT_TRUE(trial.ended());
}

struct PauseYourself {};

// Is told to pause in the middle of something, as no other thread can time it: by itself, while it starts and in a handler.
class PausesItself final : public Actor {
 public:
  explicit PausesItself(SimWorld& world) : world_(world) { on(&PausesItself::pause); }
  void started() override { pause({}); }
  void pause(PauseYourself) {
    const auto told = world_.system().control(Control::kPause, name());
    ASSERT_TRUE(told.ok()) << told.status();
    said.push_back(told->text);
    EXPECT_NE(told->row.state, trace::State::kPaused) << said.back();
  }
  std::vector<std::string> said;

 private:
  SimWorld& world_;
};

TEST(PauseSim, IsPausedOnlyWhenNoHandlerOfItRuns) {
  SimWorld world(1);
  auto& actor = world.system().add<PausesItself>("actor", world);
  world.start();
  const auto row = [&] { return world.system().probes().find("actor")->row(world.system().probes().texts()); };
  actor.self().send(PauseYourself{});
  while (world.step()) {
  }
  EXPECT_THAT(actor.said, testing::ElementsAre("pauses once it is through with the message that it is taking"));
  EXPECT_EQ(row().state, trace::State::kPaused);
  EXPECT_EQ(row().handled, 1) << "that with which it started";
  EXPECT_EQ(row().depth, 1);
  ASSERT_TRUE(world.system().control(Control::kResume, "actor").ok());
  while (world.step()) {
  }
  ASSERT_EQ(actor.said.size(), 2u);
  EXPECT_THAT(actor.said[1], testing::StartsWith("pauses when the handler of PauseYourself ends"));
  EXPECT_EQ(row().state, trace::State::kPaused);
}

TEST(PauseSim, TheEndOfTheJobReachesThePaused) {
  for (std::uint64_t seed = 1; seed <= test::seeds(50, 10); ++seed) {
    PauseTrial trial(seed);
    const std::size_t pause_at = trial.random() % kPieces;
    while (trial.sink.seen.size() < pause_at && trial.world.step()) {
    }
    for (const auto& name : trial.names) ASSERT_TRUE(trial.world.system().control(Control::kPause, name).ok());
    while (trial.world.step()) {
    }
    ASSERT_FALSE(trial.ended());
    ASSERT_TRUE(trial.world.system().shutdown(std::chrono::seconds(1)).ok()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace troupe::actor
