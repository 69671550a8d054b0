// What either end of an edge between processes does with each frame that its peer, or somebody else, may send. CASES A03: a slot is used
// again only when it is back, however its peer speaks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/actor/sim_world.h"
#include "runtime/base/log.h"
#include "tests/sim/comm/by_hand.h"
#include "tests/support/far_traffic.h"

namespace troupe::test {
namespace {

using testing::HasSubstr;

struct InSimWorld {
  actor::SimWorld sim{5, 0};
  device::SimStream &compute = sim.add_stream("compute"), &edges = sim.add_stream("edges");
};

// Rank 0 has one end of the edge "there", whose other end, rank 1, is spoken for by hand.
class FarByHand : private InSimWorld, public ByHand {
 public:
  explicit FarByHand(const FarTrafficOptions& traffic)
      : ByHand(3, comm::Channel::kEdges, &sim.clock()), options(traffic), pool(1 << 20), system(std::make_unique<actor::System>(sim.options())), far(*system, transport(), edges) {
    sim.add(*network);
    sim.drive(*system);
    set_log_level(LogLevel::kError);
  }
  ~FarByHand() override {
    stop();
    system.reset();  // before what its actors use
    set_log_level(LogLevel::kInfo);
  }
  void run() override { (void)sim.run(100'000); }
  void begin() {
    start();
    system->start();
    run();
  }
  std::string failure() { return std::string(system->outcome().message()); }

 protected:
  using InSimWorld::compute, InSimWorld::sim;

 public:
  const FarTrafficOptions options;
  device::BufferPool pool;
  FarTrafficBoard board;
  std::unique_ptr<actor::System> system;
  actors::FarEdges far;
};

class Sends : public FarByHand {
 public:
  explicit Sends(const FarTrafficOptions& traffic) : FarByHand(traffic) {
    auto& feeder = system->add<Feeder<actors::Activation>>("feeder", options, far_buffers(pool, options), compute, board);
    actor::connect(feeder.out, far.in<actors::Activation>(Rank(1), "there"), {.credits = options.credits});
    begin();
  }
  // The frame by which a slot goes back.
  void give_back(std::uint32_t slot, int from = 1) {
    if (edge_.empty()) edge_.assign(of(1).front().header.begin(), of(1).front().header.begin() + 8);
    auto header = edge_;
    header.resize(12);
    std::memcpy(header.data() + 8, &slot, 4);
    send(from, header);
    run();
  }

 private:
  std::vector<std::byte> edge_;  // its number
};

class Receives : public FarByHand {
 public:
  struct Frame {
    std::vector<std::byte> header, bulk;
  };
  explicit Receives(const FarTrafficOptions& traffic) : FarByHand(traffic) {
    Sends real(traffic);  // what a real sender says
    EXPECT_EQ(real.of(1).size(), static_cast<std::size_t>(traffic.credits));
    while (!real.of(1).empty()) {
      Frame frame{real.of(1).front().header, {}};
      const auto& bulk = real.take(1, 1);
      real.run();
      frame.bulk = bulk;
      frames.push_back(std::move(frame));
    }
    auto& drain = system->add<Drain<actors::Activation>>("drain", options, compute, board);
    actor::connect(far.out<actors::Activation>(Rank(1), "there", far_buffers(pool, options)), drain.in, {.credits = options.credits});
    begin();
  }
  void say(const Frame& frame, int from = 1) { send(from, frame.header, frame.bulk); }

  std::vector<Frame> frames;  // messages 0, 1, ... in slots 0, 1, ...
};

TEST(FarFrames, ABufferIsNotFilledAgainBeforeItsBulkHasLeft) {
  Sends sends({.messages = 2, .credits = 1});
  ASSERT_EQ(sends.of(1).size(), 1u);
  sends.give_back(0);  // nobody has fetched it
  EXPECT_EQ(sends.of(1).size(), 1u);
  sends.take(1);
  sends.run();
  EXPECT_EQ(sends.of(1).size(), 1u);  // the second message
  EXPECT_EQ(sends.failure(), "");
}

TEST(FarFrames, ASlotThatIsNotOutCannotComeBack) {
  for (const std::uint32_t slot : {1u, 2u, 0xffffffffu}) {  // not used yet, not there
    Sends sends({.messages = 1, .credits = 2});
    ASSERT_EQ(sends.of(1).size(), 1u);
    sends.give_back(slot);
    EXPECT_THAT(sends.failure(), HasSubstr(absl::StrCat("edge there with rank 1: gave back slot ", slot)));
  }
  Sends sends({.messages = 1, .credits = 2});
  sends.give_back(0);
  EXPECT_EQ(sends.failure(), "");
  sends.give_back(0);
  EXPECT_THAT(sends.failure(), HasSubstr("gave back slot 0"));
}

TEST(FarFrames, OnlyThePeerSpeaksForAnEdge) {
  Sends sends({.messages = 1, .credits = 1});
  sends.give_back(0, 2);
  EXPECT_EQ(sends.far.refused(), 1);
  EXPECT_EQ(sends.failure(), "");
  Receives receives({.messages = 1, .credits = 1});
  receives.say(receives.frames[0], 2);
  receives.send(1, std::span(receives.frames[0].header).first(7));
  receives.run();
  EXPECT_EQ(receives.far.refused(), 2);
  EXPECT_EQ(receives.board.received, 0);
  EXPECT_EQ(receives.failure(), "");
}

TEST(FarFrames, TakesWhatARealSenderSays) {
  Receives receives({.messages = 3, .credits = 3});
  for (const auto& frame : receives.frames) receives.say(frame);
  receives.run();
  EXPECT_EQ(receives.board.received, 3);
  EXPECT_EQ(receives.board.wrong, 0);
  EXPECT_EQ(receives.board.done, 1);
  EXPECT_EQ(receives.failure(), "");
}

TEST(FarFrames, AMessageOutOfTurnIsNamed) {
  Receives skips({.messages = 3, .credits = 3});
  skips.say(skips.frames[1]);
  skips.run();
  EXPECT_THAT(skips.failure(), HasSubstr("edge there with rank 1: message 1 came where 0 was due"));
  Receives repeats({.messages = 3, .credits = 3});
  repeats.say(repeats.frames[0]);
  repeats.say(repeats.frames[0]);
  repeats.run();
  EXPECT_THAT(repeats.failure(), HasSubstr("message 0 came where 1 was due"));
}

TEST(FarFrames, AMessageInASlotThatIsNotLentIsNamed) {
  for (const std::uint32_t slot : {0u, 3u, 0x7fffffffu}) {  // still on its way through, not there
    Receives receives({.messages = 3, .credits = 3});
    std::memcpy(receives.frames[1].header.data() + 8, &slot, 4);
    receives.say(receives.frames[0]);
    receives.say(receives.frames[1]);
    receives.run();
    EXPECT_THAT(receives.failure(), HasSubstr(absl::StrCat("message 1 is for slot ", slot, " of 3, which it was not given")));
  }
}

TEST(FarFrames, AMessageOfAnotherLengthIsNamed) {
  for (const bool longer : {false, true}) {
    Receives receives({.messages = 1, .credits = 1});
    auto& header = receives.frames[0].header;
    header.resize(longer ? header.size() + 1 : header.size() - 1);
    receives.say(receives.frames[0]);
    receives.run();
    EXPECT_THAT(receives.failure(), HasSubstr("what came is no message of it"));
  }
}

}  // namespace
}  // namespace troupe::test
