// Pause, go on and step of one actor, with threads; the deterministic world does the same in tests/sim/actor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/actor/system.h"

namespace troupe::actor {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

struct Numbered {
  int number;
};
struct Blocks {
  std::shared_future<void> until;
};
struct Breaks {};
struct Watches {
  Ref whom;
};
struct Ends {};
constexpr int kDown = -1;  // among the numbers

class Noting final : public Actor {
 public:
  Noting() {
    on(&Noting::numbered);
    on(&Noting::blocks);
    on(&Noting::breaks);
    on(&Noting::watches);
    on(&Noting::ends);
  }
  void down(const Down& down) override { numbered({down.cause.ok() ? kDown : kDown - 1}); }
  void numbered(Numbered message) {
    const std::lock_guard lock(mutex_);
    seen_.push_back(message.number);
  }
  void blocks(const Blocks& message) { message.until.wait(); }
  void breaks(Breaks) { fail(absl::InternalError("broken")); }
  void watches(Watches message) { monitor(message.whom); }
  void ends(Ends) { stop(); }
  std::vector<int> seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
  }

 private:
  mutable std::mutex mutex_;  // of the test, which looks from outside
  std::vector<int> seen_;
};

bool comes_true(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(100us);
  }
  return true;
}

// One thread: what is sent to `other` after something else is handled after all that may be handled of that.
struct PausePair {
  System system{{.threads = 1}};
  Noting& paused = system.add<Noting>("paused");
  Noting& other = system.add<Noting>("other");
  int fences = 0;

  PausePair() {
    system.start();
    fence();
  }
  void fence() {
    other.self().send(Numbered{fences++});
    ASSERT_TRUE(comes_true([&] { return static_cast<int>(other.seen().size()) == fences; }));
  }
  void send(int from, int to) {
    for (int i = from; i < to; ++i) paused.self().send(Numbered{i});
  }
  std::string told(Control what, const std::string& actor = "paused") {
    const auto controlled = system.control(what, actor);
    return controlled.ok() ? controlled->text : std::string(controlled.status().message());
  }
  trace::ActorRow row() { return system.probes().find("paused")->row(system.probes().texts()); }
};

TEST(PauseSystem, APausedActorTakesNoMessage) {
  PausePair pair;
  EXPECT_EQ(pair.told(Control::kPause), "is paused, with an empty mailbox");
  pair.send(0, 5);
  pair.fence();
  EXPECT_THAT(pair.paused.seen(), ElementsAre());
  EXPECT_EQ(pair.row().state, trace::State::kPaused);
  EXPECT_EQ(pair.row().depth, 5);
  EXPECT_THAT(pair.told(Control::kPause), HasSubstr("with 5 messages in its mailbox"));
}

TEST(PauseSystem, AStepTakesOneMessageInTheirOrder) {
  PausePair pair;
  pair.told(Control::kPause);
  pair.send(0, 3);
  EXPECT_EQ(pair.told(Control::kStep), "takes one message, of 3 in its mailbox, and stays paused");
  pair.fence();
  EXPECT_THAT(pair.paused.seen(), ElementsAre(0));
  EXPECT_EQ(pair.row().state, trace::State::kPaused);
  pair.told(Control::kStep);
  pair.told(Control::kStep);
  pair.fence();
  EXPECT_THAT(pair.paused.seen(), ElementsAre(0, 1, 2));
  EXPECT_EQ(pair.told(Control::kStep), "takes the next message that comes, and stays paused");
  pair.send(3, 5);
  pair.fence();
  EXPECT_THAT(pair.paused.seen(), ElementsAre(0, 1, 2, 3));
}

TEST(PauseSystem, GoesOnWithAllThatCameMeanwhile) {
  PausePair pair;
  pair.told(Control::kPause);
  pair.send(0, 3);
  pair.fence();
  EXPECT_EQ(pair.told(Control::kResume), "goes on, with 3 messages in its mailbox");
  pair.send(3, 4);
  ASSERT_TRUE(comes_true([&] { return pair.paused.seen().size() == 4; }));
  EXPECT_THAT(pair.paused.seen(), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(pair.told(Control::kResume), "was not paused");
  EXPECT_NE(pair.row().state, trace::State::kPaused);
}

TEST(PauseSystem, TakesEffectWhenTheHandlerEndsAndSaysSo) {
  PausePair pair;
  std::promise<void> go;
  pair.paused.self().send(Blocks{go.get_future().share()});
  pair.send(0, 3);  // of the same turn
  ASSERT_TRUE(comes_true([&] { return pair.row().state == trace::State::kHandling; }));
  const std::string said = pair.told(Control::kPause), again = pair.told(Control::kPause), step = pair.told(Control::kStep);
  const auto state = pair.row().state;
  go.set_value();  // before anything is checked: nothing ends while it waits
  EXPECT_THAT(said, HasSubstr("pauses when the handler of Blocks ends, in which it has been for "));
  EXPECT_THAT(again, HasSubstr("is told already to pause when the handler of Blocks ends"));
  EXPECT_THAT(step, HasSubstr("takes one message more when the handler of Blocks ends"));
  EXPECT_EQ(state, trace::State::kHandling);
  pair.fence();
  EXPECT_THAT(pair.paused.seen(), ElementsAre(0));
  EXPECT_EQ(pair.row().state, trace::State::kPaused);
}

// What runs before its first message is of the actor, too.
class SlowToStart final : public Actor {
 public:
  explicit SlowToStart(std::shared_future<void> until) : until_(std::move(until)) {}
  void started() override {
    runs = true;
    until_.wait();
    runs = false;
  }
  std::atomic<bool> runs{false};

 private:
  const std::shared_future<void> until_;
};

TEST(PauseSystem, IsNotPausedWhileItStarts) {
  System system({.threads = 1});
  std::promise<void> go;
  auto& slow = system.add<SlowToStart>("slow", go.get_future().share());
  system.start();
  ASSERT_TRUE(comes_true([&] { return slow.runs.load(); }));
  const auto told = system.control(Control::kPause, "slow");
  go.set_value();
  ASSERT_TRUE(told.ok()) << told.status();
  EXPECT_EQ(told->text, "pauses once it is through with the message that it is taking");
  EXPECT_NE(told->row.state, trace::State::kPaused);
  const auto probe = system.probes().find("slow");
  ASSERT_TRUE(comes_true([&] { return probe->row(system.probes().texts()).state == trace::State::kPaused; }));
  EXPECT_FALSE(slow.runs);
  EXPECT_EQ(probe->handled_count(), 1) << "its start";
}

// Works on each message for as long as a pause may take to be told.
class Working final : public Actor {
 public:
  Working() { on(&Working::work); }
  void work(Numbered) {
    works = true;
    for (int i = 0; i < 2'000; ++i) turns.fetch_add(1, std::memory_order_relaxed);
    works = false;
  }
  std::atomic<bool> works{false};
  std::atomic<std::int64_t> turns{0};
};

TEST(PauseSystem, OnceItIsSaidToBePausedNothingOfItRuns) {
  System system({.threads = 2});
  auto& working = system.add<Working>("working");
  system.start();
  const auto probe = system.probes().find("working");
  int paused = 0;
  for (int round = 0; round < 1'000; ++round) {
    for (int i = round % 7; i >= 0; --i) working.self().send(Numbered{i});
    if (round % 3 == 0) std::this_thread::yield();
    const auto told = system.control(Control::kPause, "working");
    ASSERT_TRUE(told.ok()) << told.status();
    if (told->row.state == trace::State::kPaused) {
      EXPECT_THAT(told->text, testing::StartsWith("is paused, "));
      const bool works = working.works;
      const auto turns = working.turns.load();
      const auto handled = probe->handled_count();
      for (int i = 0; i < 20; ++i) std::this_thread::yield();
      ASSERT_FALSE(works) << "in round " << round;
      ASSERT_EQ(working.turns, turns) << "in round " << round;
      ASSERT_EQ(probe->handled_count(), handled) << "in round " << round;
      ++paused;
    } else {
      EXPECT_THAT(told->text, testing::StartsWith("pauses "));
    }
    ASSERT_TRUE(system.control(Control::kResume, "working").ok());
  }
  EXPECT_GT(paused, 500);
}

TEST(PauseSystem, ADownWaitsWithTheOtherMessages) {
  PausePair pair;
  auto& paused = pair.paused;
  paused.self().send(Watches{pair.other.self()});
  pair.fence();
  pair.told(Control::kPause);
  pair.send(0, 3);
  pair.other.self().send(Ends{});
  ASSERT_TRUE(comes_true([&] { return pair.other.self().ended() && pair.row().depth == 4; }));
  EXPECT_EQ(pair.row().state, trace::State::kPaused);
  EXPECT_THAT(paused.seen(), ElementsAre());
  pair.told(Control::kStep);
  ASSERT_TRUE(comes_true([&] { return pair.row().depth == 3; }));
  EXPECT_THAT(paused.seen(), ElementsAre(kDown)) << "it is urgent among those that wait";
  pair.told(Control::kResume);
  ASSERT_TRUE(comes_true([&] { return paused.seen().size() == 4; }));
  EXPECT_THAT(paused.seen(), ElementsAre(kDown, 0, 1, 2));
}

TEST(PauseSystem, AFailureEndsThePauses) {
  PausePair pair;
  pair.told(Control::kPause);
  pair.send(0, 3);
  pair.other.self().send(Breaks{});
  EXPECT_THAT(std::string(pair.system.wait().message()), HasSubstr("actor 'other' failed: broken"));
  EXPECT_THAT(pair.told(Control::kPause), HasSubstr("'paused' has ended"));
}

TEST(PauseSystem, AnOrderlyEndEndsThePausesAndLosesNothing) {
  PausePair pair;
  pair.told(Control::kPause);
  pair.send(0, 3);
  pair.fence();
  EXPECT_TRUE(pair.system.shutdown(20s).ok());
  EXPECT_THAT(pair.paused.seen(), ElementsAre(0, 1, 2));
}

TEST(PauseSystem, TheDestructorEndsThePauses) {
  const auto begun = std::chrono::steady_clock::now();
  {
    PausePair pair;
    pair.told(Control::kPause);
    pair.send(0, 3);
    pair.fence();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 9s) << "System::Options::stop_deadline is 10 s";
}

TEST(PauseSystem, AfterEndPausesNobodyIsPausedAnyMore) {
  PausePair pair;
  pair.told(Control::kPause);
  pair.send(0, 1);
  pair.system.end_pauses();
  ASSERT_TRUE(comes_true([&] { return pair.paused.seen().size() == 1; }));
  EXPECT_THAT(pair.told(Control::kPause), HasSubstr("is not paused any more: the job comes to its end"));
  pair.send(1, 2);
  ASSERT_TRUE(comes_true([&] { return pair.paused.seen().size() == 2; }));
}

TEST(PauseSystem, RefusesWhatMakesNoSense) {
  PausePair pair;
  EXPECT_EQ(pair.told(Control::kStep), "'paused' is not paused: pause it, then let it take a step");
  EXPECT_EQ(pair.told(Control::kPause, "pausd"), "there is no actor 'pausd'; did you mean 'paused'?");
  EXPECT_EQ(pair.told(Control::kPause, "x"), "there is no actor 'x'");
  EXPECT_EQ(pair.system.control(Control::kPause, "x").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(pair.told(Control::kPause, "supervisor"), "'supervisor' is never paused: the job's end goes through it");
  System unstarted;
  unstarted.add<Noting>("paused");
  EXPECT_THAT(std::string(unstarted.control(Control::kPause, "paused").status().message()), HasSubstr("has not started"));
}

// Pauses and goes on from two threads while a third sends: nothing is lost, nothing overtakes.
TEST(PauseSystem, ManyHandsAtOnceLoseNothing) {
  System system({.threads = 2});
  auto& actor = system.add<Noting>("actor");
  system.start();
  constexpr int kMessages = 20'000;
  std::atomic<bool> done{false};
  std::vector<std::thread> hands;
  for (int hand = 0; hand < 2; ++hand) {
    hands.emplace_back([&, hand] {
      for (int i = 0; !done; ++i) {
        (void)system.control(i % 3 == 0 ? Control::kPause : i % 3 == 1 + hand ? Control::kStep : Control::kResume, "actor");
        std::this_thread::yield();
      }
    });
  }
  for (int i = 0; i < kMessages; ++i) actor.self().send(Numbered{i});
  const bool all = comes_true([&] { return actor.seen().size() == kMessages; });
  done = true;
  for (auto& hand : hands) hand.join();
  ASSERT_TRUE(all);
  const auto seen = actor.seen();
  EXPECT_TRUE(std::ranges::is_sorted(seen));
}

}  // namespace
}  // namespace troupe::actor
