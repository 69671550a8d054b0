// Rooms of split blocks: who gets one when, and what is in it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>

#include "actors/train/gradient_rooms.h"
#include "actors/train/weight_rooms.h"
#include "actors/train/whole_weights.h"
#include "runtime/actor/sim_world.h"
#include "tests/unit/actors/inbox.h"

namespace troupe::test {
namespace {

using namespace actors;
using testing::ElementsAre;

constexpr std::int64_t kElements = 3 * kernels::kNormChunk;

// One that waits until the test lets it end.
struct Fetch {
  BlockIndex block;
  int member;
  StepId step;
  std::span<std::byte> into;
  comm::Completion done;
};

// Three blocks of three chunks over two replicas, and two rooms. The fetches wait until the test lets them end.
class RoomsTest : public testing::Test {
 protected:
  void begin(bool keeps, int rooms) {
    for (int block = 0; block < 3; ++block) {
      auto& layout = blocks_.emplace_back();
      layout.block = BlockIndex(block);
      layout.elements = kElements;
    }
    device::PoolAllocator from(pool_);
    for (int i = 0; i < rooms; ++i) memory_.weights.push_back(from.take("rooms", device::DType::kF32, {kElements}));
    auto& made = world_.system().add<WeightRooms>(
        "weights", WeightRooms::Setup{.blocks = blocks_, .share = {.replicas = 2, .zero = 3}, .memory = memory_, .keeps = keeps,
                                      .split = {BlockIndex(0), BlockIndex(1), BlockIndex(2)},
                                      .fetch = [this](BlockIndex block, int member, StepId step, std::span<std::byte> into, comm::Completion done) {
                                        fetches_.push_back({block, member, step, into, std::move(done)});
                                      }});
    made.connect_to(device_.self());
    weights_ = made.self();
    world_.start();
    settle();
  }
  void settle() { ASSERT_TRUE(world_.run().ok()); }
  // Asked for, in order; the gate's index is its number.
  void want(int block, std::int64_t step) {
    gates_.emplace_back();
    weights_.send(WeightsWanted{BlockIndex(block), StepId(step), &gates_.back()});
    settle();
  }
  void leave(std::size_t gate) {
    weights_.send(WeightsLeft{gates_[gate].room});
    settle();
  }
  // Every open fetch brings the number of its block.
  void bring() {
    std::deque<Fetch> open;
    std::swap(open, fetches_);
    for (auto& fetch : open) {
      float* values = reinterpret_cast<float*>(fetch.into.data());
      std::fill(values, values + fetch.into.size() / sizeof(float), static_cast<float>(fetch.block.value));
      fetch.done(ok());
    }
    settle();
  }
  std::vector<std::size_t> opened() const {
    std::vector<std::size_t> found;
    for (const auto& message : device_.of<OpenGate>()) {
      for (std::size_t i = 0; i < gates_.size(); ++i) {
        if (&gates_[i] == message.gate) found.push_back(i);
      }
    }
    return found;
  }
  bool holds(std::size_t gate, int block) const {
    const auto flat = gates_[gate].flat;
    const float* values = flat.data<float>();
    return flat.elements() == kElements && std::all_of(values, values + kElements, [&](float v) { return v == static_cast<float>(block); });
  }

  device::BufferPool pool_{4 << 20};
  std::vector<models::BlockLayout> blocks_;
  plan::RoomMemory memory_;
  actor::SimWorld world_{5};
  test::Inbox<OpenGate>& device_ = world_.system().add<test::Inbox<OpenGate>>("device");
  actor::Ref weights_;
  std::deque<Fetch> fetches_;
  std::deque<WeightsGate> gates_;
};

using WeightRoomsTest = RoomsTest;

TEST_F(WeightRoomsTest, ManyWantsShareFewRooms) {
  begin(false, 2);
  for (const int block : {0, 1, 2, 0}) want(block, 1);
  // both members' parts of the first two blocks; the others wait, though the last one's weights are on their way
  ASSERT_EQ(fetches_.size(), 4u);
  EXPECT_EQ(fetches_[0].into.size() + fetches_[1].into.size(), kElements * sizeof(float));
  EXPECT_THAT(opened(), ElementsAre());
  bring();
  EXPECT_THAT(opened(), ElementsAre(0, 1));
  EXPECT_TRUE(holds(0, 0) && holds(1, 1));
  leave(1);
  EXPECT_EQ(fetches_.size(), 2u);
  EXPECT_EQ(gates_[2].room, gates_[1].room);
  EXPECT_THAT(opened(), ElementsAre(0, 1, 3));  // the same weights as the first one's
  EXPECT_EQ(gates_[3].room, gates_[0].room);
  EXPECT_TRUE(holds(0, 0));
  bring();
  EXPECT_THAT(opened(), ElementsAre(0, 1, 3, 2));
  EXPECT_TRUE(holds(2, 2));
  // two are in the first room
  leave(0);
  want(1, 1);
  EXPECT_TRUE(fetches_.empty());
  leave(3);
  EXPECT_EQ(fetches_.size(), 2u);
}

TEST_F(WeightRoomsTest, WhatWasUsedLastStaysLongest) {
  begin(false, 2);
  want(0, 1);
  want(1, 1);
  bring();
  leave(1);
  leave(0);
  want(0, 1);  // still there
  EXPECT_THAT(opened(), ElementsAre(0, 1, 2));
  EXPECT_TRUE(fetches_.empty());
  leave(2);
  want(2, 1);
  EXPECT_EQ(gates_[3].room, gates_[1].room);
}

TEST_F(WeightRoomsTest, ANewStepIsFetchedAnew) {
  begin(true, 3);
  want(1, 1);
  bring();
  leave(0);
  want(1, 1);
  EXPECT_THAT(opened(), ElementsAre(0, 1));
  leave(1);
  want(1, 2);
  ASSERT_EQ(fetches_.size(), 2u);
  EXPECT_EQ(fetches_[0].step, StepId(1));  // what the update of step 1 left
  EXPECT_EQ(gates_[2].room, 1);  // a room for each block
  EXPECT_THAT(opened(), ElementsAre(0, 1));
}

TEST_F(WeightRoomsTest, FailsWithTheCauseWhenAPartCannotBeFetched) {
  begin(false, 1);
  want(2, 1);
  fetches_.front().done(absl::UnavailableError("rank 1 is gone"));
  const Status end = world_.run();
  EXPECT_EQ(end.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(end.message()), testing::HasSubstr("the weights of block 2 cannot be gathered: rank 1 is gone"));
  EXPECT_THAT(opened(), ElementsAre());
}

// Two replicas, this is number 1: of a block of three chunks it owns the last ones, and one of one chunk.
class WholeWeightsTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const std::int64_t elements : {kElements, std::int64_t{100}, kElements, kElements}) {
      auto& layout = blocks_.emplace_back();
      layout.elements = elements;
      memory_.emplace_back(static_cast<std::size_t>(elements), 9.0f);
    }
    WholeWeights::Setup setup{.blocks = blocks_, .share = {.replica = 1, .replicas = 2, .zero = 1}, .weights = {}, .fetch = [this](auto&&... all) {
                                fetches_.push_back({std::move(all)...});
                              }};
    for (auto& values : memory_) {
      setup.weights.push_back(device::TensorView(values.data(), device::DType::kF32, {static_cast<std::int64_t>(values.size())}));
    }
    auto& whole = world_.system().add<WholeWeights>("weights", std::move(setup));
    whole.connect_to(device_.self());
    whole_ = whole.self();
    world_.start();
    settle();
  }
  void settle() { ASSERT_TRUE(world_.run().ok()); }
  void written(int block, std::int64_t step) {
    whole_.send(WeightsWritten{BlockIndex(block), StepId(step)});
    settle();
  }
  void want(int block, std::int64_t step) {
    whole_.send(WeightsWanted{BlockIndex(block), StepId(step), &gates_.emplace_back()});
    settle();
  }
  void bring(std::size_t fetch) {
    fetches_[fetch].done(ok());
    settle();
  }

  std::vector<models::BlockLayout> blocks_;
  std::deque<std::vector<float>> memory_;
  actor::SimWorld world_{5};
  test::Inbox<OpenGate>& device_ = world_.system().add<test::Inbox<OpenGate>>("device");
  actor::Ref whole_;
  std::deque<Fetch> fetches_;
  std::deque<WeightsGate> gates_;
};

TEST_F(WholeWeightsTest, OpensWhenAllPartsAreThere) {
  want(0, 4);
  written(0, 3);
  ASSERT_EQ(fetches_.size(), 1u);  // the other's part, right into its place
  EXPECT_EQ(fetches_[0].member, 0);
  EXPECT_EQ(fetches_[0].step, StepId(3));
  EXPECT_EQ(static_cast<void*>(fetches_[0].into.data()), static_cast<void*>(memory_[0].data()));
  EXPECT_LT(fetches_[0].into.size(), kElements * sizeof(float));
  EXPECT_EQ(device_.count<OpenGate>(), 0u);
  bring(0);
  EXPECT_EQ(device_.count<OpenGate>(), 1u);
  want(0, 4);
  EXPECT_EQ(device_.count<OpenGate>(), 2u);
  EXPECT_EQ(gates_.back().room, -1);
  want(0, 5);  // of an update that has not been made
  EXPECT_EQ(device_.count<OpenGate>(), 2u);
  written(0, 4);
  EXPECT_EQ(device_.count<OpenGate>(), 2u);
  bring(1);
  EXPECT_EQ(device_.count<OpenGate>(), 3u);
}

TEST_F(WholeWeightsTest, FetchesAFewBlocksAtOnceInTheOrderInWhichTheyWereWritten) {
  for (int block = 0; block < 4; ++block) written(block, 0);
  want(1, 1);  // of one chunk, its own: there is nothing to fetch
  EXPECT_EQ(device_.count<OpenGate>(), 1u);
  ASSERT_EQ(fetches_.size(), 2u);
  EXPECT_EQ(fetches_[0].block, BlockIndex(0));
  EXPECT_EQ(fetches_[1].block, BlockIndex(2));
  bring(1);
  ASSERT_EQ(fetches_.size(), 3u);
  EXPECT_EQ(fetches_[2].block, BlockIndex(3));
}

TEST_F(WholeWeightsTest, FailsWithTheCauseWhenAPartCannotBeFetched) {
  written(2, 0);
  fetches_.front().done(absl::UnavailableError("rank 0 is gone"));
  EXPECT_THAT(std::string(world_.run().message()), testing::HasSubstr("the weights of block 2 cannot be gathered: rank 0 is gone"));
}

TEST(GradientRoomsTest, HandsOutEachRoomOnce) {
  device::BufferPool pool(1 << 16);
  device::PoolAllocator from(pool);
  plan::RoomMemory memory;
  auto& layers = memory.gradients[static_cast<std::size_t>(plan::GradientRoom::kLayer)];
  for (int i = 0; i < 2; ++i) layers.push_back(from.take("rooms", device::DType::kF32, {16}));
  memory.gradients[static_cast<std::size_t>(plan::GradientRoom::kEmbedding)].push_back(from.take("rooms", device::DType::kF32, {16}));
  actor::SimWorld world(5);
  auto& device = world.system().add<test::Inbox<OpenGate>>("device");
  auto& rooms = world.system().add<GradientRooms>("gradients", memory);
  rooms.connect_to(device.self());
  world.start();
  std::deque<GradientGate> gates(4);
  for (int i = 0; i < 3; ++i) rooms.self().send(GradientRoomWanted{plan::GradientRoom::kLayer, BlockIndex(3 - i), &gates[static_cast<std::size_t>(i)]});
  rooms.self().send(GradientRoomWanted{plan::GradientRoom::kEmbedding, BlockIndex(0), &gates[3]});
  ASSERT_TRUE(world.run().ok());
  EXPECT_EQ(device.count<OpenGate>(), 3u);  // the third layer's waits, the embedding's does not
  EXPECT_NE(gates[0].room, gates[1].room);
  EXPECT_EQ(gates[2].room, -1);
  EXPECT_EQ(gates[3].room, 0);
  const auto said = [&] { return doing(rooms.probe().row(world.system().probes().texts())); };
  EXPECT_EQ(said(), "waiting for room 1 from shard-3");  // the first that was given one
  rooms.self().send(GradientRoomLeft{plan::GradientRoom::kLayer, gates[1].room});
  ASSERT_TRUE(world.run().ok());
  ASSERT_EQ(device.count<OpenGate>(), 4u);
  EXPECT_EQ(device.last<OpenGate>().gate, &gates[2]);
  EXPECT_EQ(gates[2].room, gates[1].room);
}

}  // namespace
}  // namespace troupe::test
