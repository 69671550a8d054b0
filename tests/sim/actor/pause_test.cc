// Actors are paused, stepped and let go at random moments of virtual time: nothing is lost, nothing overtakes, nothing spins.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>
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

struct Ending {};
struct Whom {
  Ref actor;
};

// Ends with its last message: the odd ones fail.
class Mortal final : public Actor {
 public:
  Mortal(int number, int messages) : number_(number), left_(messages) { on(&Mortal::hear); }
  void hear(Ending) {
    if (--left_ > 0) return;
    if (number_ % 2 == 0) return stop();
    fail(absl::AbortedError("mortal " + std::to_string(number_)));
  }

 private:
  const int number_;
  int left_;
};

// Keeps the ends of those that it watches, and stops when it has heard of all.
class Mourner final : public Actor {
 public:
  explicit Mourner(int of) : left_(of) {
    on(&Mourner::watch);
    on(&Mourner::number);
  }
  void watch(Whom whom) { monitor(whom.actor); }
  void number(Piece piece) {
    numbers.push_back(piece.number);
    end_if_done();
  }
  void down(const Down& down) override {
    std::string text = down.actor.name() + " " + std::string(down.cause.message());
    for (const auto& cause : down.chain) text += " <- " + cause;
    downs.insert(text);
    --left_;
    end_if_done();
  }
  void end_if_done() {
    if (left_ == 0 && numbers.size() == kPieces) stop();
  }
  std::multiset<std::string> downs;
  std::vector<int> numbers;

 private:
  int left_;
};

// Some are watched before, some after they have ended; Downs come to the paused, and from the paused.
struct MourningTrial {
  static constexpr int kMortals = 6, kMourners = 3;
  explicit MourningTrial(std::uint64_t seed) : world(seed, 1, {.stop_on_failure = false}), random(seed) {
    for (int i = 0; i < kMortals; ++i) mortals.push_back(&world.system().add<Mortal>("mortal-" + std::to_string(i), i, 3 + 2 * i));
    for (int i = 0; i < kMourners; ++i) mourners.push_back(&world.system().add<Mourner>("mourner-" + std::to_string(i), kMortals));
    for (auto* mortal : mortals) names.push_back(mortal->name());
    for (auto* mourner : mourners) names.push_back(mourner->name());
    world.start();
    // What is still to be sent, each by its moment: the same messages in every trial.
    for (int i = 0; i < kMortals; ++i) {
      for (int k = 0; k < 3 + 2 * i; ++k) to_send.push_back([this, i] { mortals[static_cast<std::size_t>(i)]->self().send(Ending{}); });
      for (auto* mourner : mourners) to_send.push_back([this, i, mourner] { mourner->self().send(Whom{mortals[static_cast<std::size_t>(i)]->self()}); });
    }
    std::shuffle(to_send.begin(), to_send.end(), random);
    for (int k = 0; k < kPieces; ++k) {
      for (auto* mourner : mourners) to_send.push_back([mourner, k] { mourner->self().send(Piece{k}); });
    }
  }
  bool ended() const { return SimWorld::has_ended(world.system()); }
  trace::ActorRow row(const std::string& name) {
    for (const auto& row : world.system().probes().snapshot().actors) {
      if (row.name == name) return row;
    }
    return {.name = name, .state = trace::State::kEnded};
  }

  mutable SimWorld world;
  std::mt19937_64 random;
  std::vector<Mortal*> mortals;
  std::vector<Mourner*> mourners;
  std::vector<std::string> names;
  std::vector<std::function<void()>> to_send;
};

TEST(PauseSim, NoDownIsLostWhoeverIsPaused) {
  std::int64_t downs_that_waited = 0;
  for (std::uint64_t seed = 1; seed <= test::seeds(100, 20); ++seed) {
    SCOPED_TRACE(seed);
    MourningTrial trial(seed);
    int rounds = 0;
    std::map<std::string, std::int64_t> may_handle;  // the count that a paused actor may come to
    std::size_t sent = 0;
    while (!trial.ended()) {
      if (sent < trial.to_send.size() && trial.random() % 2 == 0) trial.to_send[sent++]();
      const bool moved = trial.world.step();
      if ((!moved && sent == trial.to_send.size()) || trial.random() % 6 == 0) {
        const std::string& name = trial.names[trial.random() % trial.names.size()];
        const auto what = static_cast<Control>(trial.random() % 3);
        if (trial.world.system().control(what, name).ok()) {
          if (what == Control::kResume) may_handle.erase(name);
          if (what == Control::kPause) may_handle.try_emplace(name, trial.row(name).handled);
          if (what == Control::kStep) ++may_handle.at(name);
        }
      }
      for (const auto& row : trial.world.system().probes().snapshot().actors) {
        ASSERT_EQ(row.sent, row.handled + row.dead + row.depth) << row.name;
        const auto paused = may_handle.find(row.name);
        if (paused == may_handle.end()) continue;
        ASSERT_EQ(row.state, trace::State::kPaused) << row.name;
        ASSERT_LE(row.handled, paused->second) << row.name;
        downs_that_waited += std::ranges::count(row.waiting, "Down", &trace::WaitingMessage::type);
      }
      ASSERT_LT(++rounds, 100'000) << "a Down is lost";
    }
    std::multiset<std::string> expected;
    for (const auto* mortal : trial.mortals) {
      const auto number = mortal->name().substr(mortal->name().size() - 1);
      expected.insert(mortal->name() + " " + (number[0] % 2 == 0 ? "" : "mortal " + number + " <- " + mortal->name() + ": mortal " + number));
    }
    for (const auto* mourner : trial.mourners) {
      ASSERT_EQ(mourner->downs, expected) << mourner->name();
      ASSERT_EQ(mourner->numbers, all_pieces()) << mourner->name();
    }
    const std::string outcome(trial.world.system().outcome().message());
    for (const int odd : {1, 3, 5}) ASSERT_THAT(outcome, testing::HasSubstr("'mortal-" + std::to_string(odd) + "' failed"));
  }
  EXPECT_GT(downs_that_waited, 300);
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
