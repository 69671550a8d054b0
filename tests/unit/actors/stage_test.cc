#include "actors/train/stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "actors/plan/shard_memory.h"
#include "kernels/ref/ref.h"
#include "runtime/actor/sim_world.h"
#include "tests/support/tiny_job.h"
#include "tests/unit/actors/inbox.h"

namespace troupe::test {
namespace {

using namespace actors;
// What stands before and beside the last stage: it sends when it is told, and keeps what comes back.
class Neighbours final : public actor::Actor {
 public:
  struct Go {
    int batches = 0, activations = 0;
    bool last = false;  // the last one of the batches is the step's
  };
  explicit Neighbours(plan::StageMemory& memory) : memory_(memory) { on(&Neighbours::go); }
  actor::Out<Batch> batch{*this, "batch"};
  actor::Out<Activation> activation{*this, "activation"};
  actor::In<Gradient> gradient{*this, "gradient", &Neighbours::came_back};
  std::vector<device::Tensor> sent;
  int gradients = 0;

 private:
  void go(Go message) {
    for (int i = 0; i < message.batches; ++i) {
      const auto slot = batch.take();
      batch.send(slot, {StepId(1), MicroBatchId(next_batch_++), memory_.inputs[static_cast<std::size_t>(slot.index)],
                        message.last && i + 1 == message.batches});
    }
    for (int i = 0; i < message.activations; ++i) {
      const auto slot = activation.take();
      activation.send(slot, {StepId(1), MicroBatchId(next_activation_++), sent[static_cast<std::size_t>(slot.index)], {}});
    }
  }
  void came_back(actor::Delivery<Gradient>) { ++gradients; }

  plan::StageMemory& memory_;
  int next_batch_ = 0, next_activation_ = 0;
};

// The second of two stages of a tiny model.
class Stage : public testing::Test {
 protected:
  // `gathers`: its weights are asked for, and the test opens the gates.
  void begin(int max_operations, bool gathers = false, int prefetch = 1) {
    const auto job = plan::parse_job_config(test::tiny_config("corpus", "run"), "test.toml", {"--parallelism.pipeline=2"});
    ASSERT_TRUE(job.ok()) << job.status();
    auto plan = plan::make_plan(*job, {.threads = 1}, kernels::ref::table());
    ASSERT_TRUE(plan.ok()) << plan.status();
    plan_ = *std::move(plan);
    plan_.prefetch = prefetch;
    const auto& shape = plan_.stages.back();
    pool_ = std::make_unique<device::BufferPool>(plan_.pool_bytes);
    device::PoolAllocator from(*pool_);
    memory_ = plan::StageMemory::take(plan_.model, shape, plan_.stage_options(shape), from);
    for (const auto& block : plan_.blocks) {
      shards_.push_back(plan::ShardMemory::take(plan_.model, block, plan_.geometry.compute, false, from));
    }
    world_ = std::make_unique<actor::SimWorld>(5);
    auto& system = world_->system();
    stream_ = &world_->add_stream("compute", [](std::uint64_t) { return 1'000; });
    device_ = &system.add<DeviceLoop>("device", *stream_, world_->clock(), max_operations);
    listener_ = &system.add<test::Inbox<StepLossMeasured, BlockGradientReady>>("listener");
    const auto& listener = *listener_;
    neighbours_ = &system.add<Neighbours>("neighbours", memory_);
    for (int i = 0; i < 2; ++i) neighbours_->sent.push_back(from.take("edges", plan_.geometry.compute, {plan_.geometry.rows(), plan_.model.hidden}));

    actors::Stage::Setup setup{.plan = plan_, .shape = shape, .memory = memory_, .kernels = kernels::ref::table(), .stream = *stream_};
    for (auto block = static_cast<std::size_t>(shape.block(0).value); block < plan_.blocks.size(); ++block) {
      setup.blocks.push_back({models::BlockWeights(plan_.blocks[block], shards_[block].weights.view()),
                              models::BlockGradients(plan_.blocks[block], shards_[block].gradient.view())});
      setup.shards.push_back(listener.self());
    }
    setup.projection = models::BlockWeights(plan_.blocks.back(), shards_.back().weights.view())[models::Role::kHead];
    setup.projection_gradient = models::BlockGradients(plan_.blocks.back(), shards_.back().gradient.view())[models::Role::kHead];
    weights_ = &system.add<test::Inbox<WeightsWanted>>("weights");
    if (gathers) setup.whole_weights = weights_->self();
    stage_ = &system.add<actors::Stage>("stage-1", std::move(setup));
    stage_->connect_to(device_->self(), listener.self());
    actor::connect(neighbours_->batch, stage_->batch, {.credits = shape.batch_credits});
    actor::connect(neighbours_->activation, stage_->activation_in, {.credits = 2});
    actor::connect(stage_->gradient_out, neighbours_->gradient, {.credits = shape.gradient_credits});
    world_->start();
    settle();
  }
  void settle() { ASSERT_TRUE(world_->run().ok()); }
  void deliver(Neighbours::Go what) {
    neighbours_->self().send(what);
    settle();
  }
  trace::ActorRow row() const { return stage_->probe().row(world_->system().probes().texts()); }

  plan::Plan plan_;
  std::unique_ptr<device::BufferPool> pool_;
  plan::StageMemory memory_;
  std::vector<plan::ShardMemory> shards_;
  std::unique_ptr<actor::SimWorld> world_;
  device::SimStream* stream_ = nullptr;
  DeviceLoop* device_ = nullptr;
  Neighbours* neighbours_ = nullptr;
  actors::Stage* stage_ = nullptr;
  test::Inbox<StepLossMeasured, BlockGradientReady>* listener_ = nullptr;
  test::Inbox<WeightsWanted>* weights_ = nullptr;
};

TEST_F(Stage, SaysReadyAndStartsNothingWhileTheDeviceHasNoRoom) {
  begin(0);
  deliver({.batches = 3, .activations = 2});
  EXPECT_EQ(row().depth, 0);  // what was delivered has left the mailbox
  EXPECT_EQ(row().state, trace::State::kReady);
  EXPECT_EQ(device_->operations_started(), 0);
  EXPECT_EQ(stream_->pending(), 0u);
  EXPECT_EQ(neighbours_->batch.free(), 0);  // and what it holds holds its credits
  EXPECT_EQ(neighbours_->activation.free(), 0);
  EXPECT_FALSE(world_->step());  // nobody tries again and again
}

// The same deliveries on a device with room.
TEST_F(Stage, StartsAsSoonAsTheDeviceHasRoom) {
  begin(256);
  deliver({.batches = 3, .activations = 2});
  EXPECT_GT(device_->operations_started(), 0);
  EXPECT_EQ(neighbours_->gradients, 2);  // of the two micro-batches that had all they need
  EXPECT_EQ(neighbours_->activation.free(), 2);
  EXPECT_EQ(neighbours_->batch.free(), 2);
  EXPECT_EQ(row().state, trace::State::kWaitingForInput);
  EXPECT_EQ(row().detail, "activation");
}

TEST_F(Stage, WaitsForTheActivationOfABatch) {
  begin(256);
  deliver({.batches = 3});
  EXPECT_EQ(device_->operations_started(), 0);
  EXPECT_EQ(row().state, trace::State::kWaitingForInput);
}

TEST_F(Stage, WaitsForABatchOfAnActivation) {
  begin(256);
  deliver({.activations = 1});
  EXPECT_EQ(device_->operations_started(), 0);
  EXPECT_EQ(row().depth, 0);
}

TEST_F(Stage, TellsLossAndGradientsOnceTheLastMicroBatchIsComputed) {
  begin(256);
  deliver({.batches = 1, .activations = 1});
  EXPECT_EQ(listener_->count<StepLossMeasured>(), 0u);
  EXPECT_EQ(listener_->count<BlockGradientReady>(), 0u);
  deliver({.batches = 1, .activations = 1, .last = true});
  ASSERT_EQ(listener_->count<StepLossMeasured>(), 1u);
  EXPECT_EQ(listener_->last<StepLossMeasured>().total.tokens, 2.0 * 16);
  EXPECT_EQ(listener_->count<BlockGradientReady>(), 3u);  // two layers and the head
}

// Where replicas pull: which one was the last is known when it is under way or done.
TEST_F(Stage, TellsLossAndGradientsWhenItsShareHasEnded) {
  begin(256);
  deliver({.batches = 2, .activations = 1});
  stage_->self().send(ShareEnded{StepId(1), 2});
  settle();
  EXPECT_EQ(listener_->count<BlockGradientReady>(), 0u) << "one of its two is not computed";
  EXPECT_EQ(listener_->count<StepLossMeasured>(), 0u);
  deliver({.activations = 1});
  EXPECT_EQ(listener_->count<BlockGradientReady>(), 3u);
  ASSERT_EQ(listener_->count<StepLossMeasured>(), 1u);
  EXPECT_EQ(listener_->last<StepLossMeasured>().total.tokens, 2.0 * 16);
  stage_->self().send(ShareEnded{StepId(2), 0});  // none of the next step
  settle();
  EXPECT_EQ(listener_->count<BlockGradientReady>(), 6u);
  EXPECT_EQ(listener_->last<BlockGradientReady>().step, StepId(2));
  EXPECT_EQ(listener_->last<StepLossMeasured>().total.tokens, 0);
  EXPECT_EQ(listener_->last<StepLossMeasured>().total.loss, 0);
}

// It has the step's weights before its sums are told: else others might write the next ones first.
TEST_F(Stage, AShareOfNoneWaitsForTheWeightsOfItsStep) {
  begin(256, true);
  stage_->self().send(ShareEnded{StepId(4), 0});
  settle();
  std::vector<int> blocks;
  for (std::size_t opened = 0; opened < weights_->count<WeightsWanted>(); ++opened) {
    EXPECT_EQ(listener_->count<BlockGradientReady>(), 0u) << "after the weights of " << opened << " blocks";
    EXPECT_EQ(listener_->count<StepLossMeasured>(), 0u);
    const auto wanted = weights_->of<WeightsWanted>()[opened];
    EXPECT_EQ(wanted.step, StepId(4));
    blocks.push_back(wanted.block.value);
    device_->self().send(OpenGate{wanted.gate});
    settle();
  }
  EXPECT_THAT(blocks, testing::ElementsAre(3, 4, 5));  // two layers and the head
  EXPECT_EQ(listener_->count<BlockGradientReady>(), 3u);
  EXPECT_EQ(listener_->count<StepLossMeasured>(), 1u);
}

TEST_F(Stage, AsksForAsManyBlocksAheadAsItPrefetches) {
  for (const int prefetch : {0, 1, 2}) {
    begin(256, true, prefetch);
    deliver({.batches = 1, .activations = 1});
    EXPECT_EQ(weights_->count<WeightsWanted>(), static_cast<std::size_t>(prefetch + 1));
    device_->self().send(OpenGate{weights_->of<WeightsWanted>().front().gate});
    settle();
    EXPECT_EQ(weights_->count<WeightsWanted>(), static_cast<std::size_t>(std::min(prefetch + 2, 3)));  // it is at the second of three
    world_.reset();
    shards_.clear();
    memory_ = {};
  }
}

}  // namespace
}  // namespace troupe::test
