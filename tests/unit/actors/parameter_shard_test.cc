#include "actors/train/parameter_shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/ref/ref.h"
#include "models/parameters.h"
#include "runtime/actor/sim_world.h"
#include "tests/unit/actors/inbox.h"

namespace troupe::test {
namespace {

using namespace actors;
using testing::Each, testing::FloatNear;

// A shard of the embedding of a tiny model, on a device whose copies take a thousand times as long as its kernels.
class ParameterShardTest : public testing::Test {
 protected:
  void begin(bool tied, int replicas = 1, int zero = 0) {
    model_ = {.family = models::Family::kLlama, .vocabulary = 30, .padded_vocabulary = 32, .layers = 1, .hidden = 8, .heads = 2,
              .kv_heads = 1, .head_dim = 4, .intermediate = 16, .max_seq_len = 8, .tied_embeddings = tied};
    layout_ = models::block_layout(model_, BlockIndex(0));
    device::PoolAllocator from(pool_);
    const plan::ShardShare share{.replicas = replicas, .zero = zero};
    memory_ = plan::ShardMemory::take(model_, layout_, device::DType::kF32, true, from, share);
    auto& shard = world_.system().add<actors::ParameterShard>(
        "shard-0", actors::ParameterShard::Setup{.model = model_, .layout = layout_, .memory = memory_, .kernels = kernels::ref::table(),
                                         .compute = compute_, .copy = copy_, .optimizer = optimizer_, .seed = 3,
                                         .uses = tied ? 2 : 1, .micro_batches = 2, .share = share,
                                         .written = [this](StepId step) { written_.push_back(step.value); }});
    shard.connect_to(device_.self(), ledger_.self(), writer_.self(), group_.self());
    shard_ = shard.self();
    world_.start();
    settle();
  }
  void settle() { ASSERT_TRUE(world_.run().ok()); }
  template <class M>
  void tell(M message) {
    shard_.send(std::move(message));
    settle();
  }
  static std::vector<float> values(const device::Tensor& tensor) {
    const float* data = tensor.view().data<float>();
    return {data, data + tensor.view().elements()};
  }
  static void set(const device::Tensor& tensor, double scale) {
    float* data = tensor.view().data<float>();
    for (std::int64_t i = 0; i < tensor.view().elements(); ++i) data[i] = static_cast<float>(scale * std::sin(static_cast<double>(i) + 1));
  }
  StepDecided decide(std::int64_t step, bool skip = false) const {
    return {.step = StepId(step), .skip = skip, .update = step, .learning_rate = 0.1, .gradient_scale = 0.5};
  }

  const plan::OptimizerSection optimizer_{.lr = 0.1, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1};
  device::BufferPool pool_{1 << 20};
  models::ModelConfig model_;
  models::BlockLayout layout_;
  plan::ShardMemory memory_;
  actor::SimWorld world_{11};
  std::int64_t kernel_ns_ = 1'000;
  device::SimStream& compute_ = world_.add_stream("compute", [this](std::uint64_t) { return kernel_ns_; });
  device::SimStream& copy_ = world_.add_stream("copy", [](std::uint64_t) { return 1'000'000; });
  DeviceLoop& device_ = world_.system().add<DeviceLoop>("device", compute_, world_.clock());
  test::Inbox<ShardUpdated, NormMeasured>& ledger_ = world_.system().add<test::Inbox<ShardUpdated, NormMeasured>>("ledger");
  test::Inbox<SnapshotTaken>& writer_ = world_.system().add<test::Inbox<SnapshotTaken>>("writer");
  test::Inbox<GradientRoomLeft>& rooms_ = world_.system().add<test::Inbox<GradientRoomLeft>>("rooms");
  test::Inbox<CollectiveRequested>& group_ = world_.system().add<test::Inbox<CollectiveRequested>>("replicas");
  actor::Ref shard_;
  std::vector<std::int64_t> written_;
};

// The sum over replicas comes before the norm, and covers the uses of a tied embedding.
TEST_F(ParameterShardTest, SumsOverReplicasBeforeItMeasures) {
  begin(true, 2);
  set(memory_.gradient, 2);
  tell(BlockGradientReady{StepId(3), plan::GradientUse::kProjection});  // the head's part is reduced while the backward goes on
  ASSERT_EQ(group_.count<CollectiveRequested>(), 1u);
  EXPECT_EQ(group_.last<CollectiveRequested>().collective.data, static_cast<std::byte*>(memory_.head_gradient.view().raw()));
  EXPECT_EQ(group_.last<CollectiveRequested>().collective.parts.elements(), memory_.head_gradient.view().elements());
  EXPECT_FALSE(group_.last<CollectiveRequested>().collective.sparse);  // a loss's gradient reaches all rows
  tell(CollectiveDone{group_.last<CollectiveRequested>().operation});
  EXPECT_EQ(ledger_.count<NormMeasured>(), 0u);
  tell(BlockGradientReady{StepId(3)});
  ASSERT_EQ(group_.count<CollectiveRequested>(), 2u);
  const auto& asked = group_.last<CollectiveRequested>();
  EXPECT_EQ(asked.collective.kind, comm::CollectiveKind::kAllReduce);
  EXPECT_EQ(asked.collective.data, static_cast<std::byte*>(memory_.gradient.view().raw()));
  EXPECT_EQ(asked.collective.parts.elements(), memory_.gradient.view().elements());
  EXPECT_TRUE(asked.collective.sparse);  // the embedding's own: those of the step's tokens
  EXPECT_NE(asked.operation, group_.of<CollectiveRequested>().front().operation);
  EXPECT_EQ(ledger_.count<NormMeasured>(), 0u);
  set(memory_.gradient, 3);  // what the group brought
  set(memory_.head_gradient, 4);
  std::vector<float> sums = values(memory_.gradient);
  const auto head = values(memory_.head_gradient);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += head[i];
  tell(CollectiveDone{asked.operation});
  double squares = 0;
  for (float g : sums) squares += static_cast<double>(g) * g;
  ASSERT_EQ(ledger_.count<NormMeasured>(), 1u);
  EXPECT_EQ(ledger_.last<NormMeasured>().step, StepId(3));
  EXPECT_NEAR(ledger_.last<NormMeasured>().squares / squares, 1, 1e-12);
}

// Another replica's norm is enough for the ledger: its decision may come before our own sum has.
TEST_F(ParameterShardTest, KeepsADecisionThatComesBeforeItsSum) {
  begin(false, 2);
  set(memory_.gradient, 2);
  const auto before = values(memory_.master);
  tell(BlockGradientReady{StepId(1)});
  tell(decide(1));
  EXPECT_EQ(values(memory_.master), before);
  EXPECT_EQ(ledger_.count<ShardUpdated>(), 1u);
  tell(CollectiveDone{group_.last<CollectiveRequested>().operation});
  EXPECT_EQ(ledger_.count<ShardUpdated>(), 2u);
  EXPECT_NE(values(memory_.master), before);
}

// ZeRO-2 and 3: the second micro-batch's sum comes first, and waits for the first one's.
TEST_F(ParameterShardTest, AddsMicroBatchesInTheirOrder) {
  begin(false, 2, 2);
  const std::int64_t elements = layout_.elements;
  std::vector<std::vector<float>> addends;
  for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
    addends.emplace_back(static_cast<std::size_t>(elements), micro_batch == 0 ? 1e8f : 0.25f);
  }
  EXPECT_THAT(written_, testing::ElementsAre(0));  // the first weights
  for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
    const device::TensorView flat(addends[static_cast<std::size_t>(micro_batch)].data(), device::DType::kF32, {elements});
    tell(GradientInRoom{.step = StepId(1), .micro_batch = MicroBatchId(micro_batch), .last = micro_batch == 1,
                        .range = {BlockIndex(0), 0, elements}, .flat = flat, .room = {.room = micro_batch}, .rooms = rooms_.self()});
  }
  const auto asked = group_.of<CollectiveRequested>();
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(asked[1].collective.kind, comm::CollectiveKind::kReduceScatter);
  tell(CollectiveDone{asked[1].operation});
  EXPECT_EQ(rooms_.count<GradientRoomLeft>(), 0u);
  EXPECT_THAT(values(memory_.gradient), Each(0.0f));
  EXPECT_EQ(ledger_.count<NormMeasured>(), 0u);
  tell(CollectiveDone{asked[0].operation});
  ASSERT_EQ(rooms_.count<GradientRoomLeft>(), 2u);
  EXPECT_EQ(rooms_.of<GradientRoomLeft>()[0].room, 0);
  EXPECT_EQ(rooms_.of<GradientRoomLeft>()[1].room, 1);
  EXPECT_THAT(values(memory_.gradient), Each(1e8f + 0.25f));
  EXPECT_EQ(ledger_.count<NormMeasured>(), 1u);
  tell(decide(1, true));  // a skipped update: the weights of step 1 are what they were
  EXPECT_THAT(written_, testing::ElementsAre(0, 1));
}

TEST_F(ParameterShardTest, SaysWhenItsFirstWeightsAreThere) {
  begin(false);
  ASSERT_EQ(ledger_.count<ShardUpdated>(), 1u);
  EXPECT_EQ(ledger_.last<ShardUpdated>().step, StepId(0));
  EXPECT_GT(std::abs(values(memory_.master).front()), 0);
}

TEST_F(ParameterShardTest, WaitsForTheDecision) {
  begin(false);
  set(memory_.gradient, 2);
  const auto before = values(memory_.master), gradient = values(memory_.gradient);
  tell(BlockGradientReady{StepId(1)});
  double squares = 0;
  for (float g : gradient) squares += static_cast<double>(g) * g;
  ASSERT_EQ(ledger_.count<NormMeasured>(), 1u);
  EXPECT_NEAR(ledger_.last<NormMeasured>().squares / squares, 1, 1e-12);
  EXPECT_EQ(values(memory_.master), before);
  EXPECT_EQ(values(memory_.gradient), gradient);
  EXPECT_EQ(ledger_.count<ShardUpdated>(), 1u);

  tell(decide(1));
  EXPECT_EQ(ledger_.count<ShardUpdated>(), 2u);
  EXPECT_EQ(ledger_.last<ShardUpdated>().step, StepId(1));
  const auto after = values(memory_.master);
  for (std::size_t i = 0; i < after.size(); ++i) {
    // The first step of AdamW (Loshchilov & Hutter 2019): both bias-corrected moments are of this gradient alone.
    const double g = 0.5 * gradient[i], w = before[i];
    EXPECT_NEAR(after[i], w - 0.1 * (g / (std::sqrt(g * g) + 1e-8) + 0.1 * w), 1e-6) << i;
  }
  EXPECT_THAT(values(memory_.gradient), Each(0.0f));
}

// On threads the stream can tell the ledger the norm, and the ledger decide, before the device loop's TaskDone gets here.
TEST_F(ParameterShardTest, TakesADecisionThatComesBeforeItsNormTaskEnds) {
  begin(false);
  set(memory_.gradient, 2);
  const auto before = values(memory_.master);
  shard_.send(BlockGradientReady{StepId(1)});
  shard_.send(decide(1));  // in the mailbox before the device has heard of the norm's task
  settle();
  EXPECT_EQ(ledger_.count<NormMeasured>(), 1u);
  EXPECT_EQ(ledger_.count<ShardUpdated>(), 2u);
  EXPECT_EQ(ledger_.last<ShardUpdated>().step, StepId(1));
  EXPECT_NE(values(memory_.master), before);
  EXPECT_THAT(values(memory_.gradient), Each(0.0f));
}

TEST_F(ParameterShardTest, LeavesEverythingWhenTheStepIsSkipped) {
  begin(false);
  set(memory_.gradient, 2);
  set(memory_.m, 0.5);
  set(memory_.v, 0.25);
  const auto master = values(memory_.master), m = values(memory_.m), v = values(memory_.v);
  tell(BlockGradientReady{StepId(1)});
  tell(decide(1, true));
  EXPECT_EQ(ledger_.last<ShardUpdated>().step, StepId(1));
  EXPECT_EQ(values(memory_.master), master);
  EXPECT_EQ(values(memory_.m), m);
  EXPECT_EQ(values(memory_.v), v);
  EXPECT_THAT(values(memory_.gradient), Each(0.0f));
}

// CASES T42: one accumulator per use, added once.
TEST_F(ParameterShardTest, AddsTheTwoUsesOfATiedEmbeddingOnce) {
  begin(true);
  set(memory_.gradient, 1);
  set(memory_.head_gradient, 3);
  const auto one = values(memory_.gradient), two = values(memory_.head_gradient);
  ASSERT_EQ(one.size(), two.size());
  tell(BlockGradientReady{StepId(1)});
  EXPECT_EQ(ledger_.count<NormMeasured>(), 0u);  // the other use is not there yet
  EXPECT_EQ(values(memory_.gradient), one);
  tell(BlockGradientReady{StepId(1), plan::GradientUse::kProjection});
  ASSERT_EQ(ledger_.count<NormMeasured>(), 1u);
  double squares = 0;
  for (std::size_t i = 0; i < one.size(); ++i) squares += std::pow(static_cast<double>(one[i] + two[i]), 2);
  EXPECT_NEAR(ledger_.last<NormMeasured>().squares / squares, 1, 1e-12);
  EXPECT_THAT(values(memory_.head_gradient), Each(0.0f));

  tell(decide(1));
  for (int use = 0; use < 2; ++use) tell(BlockGradientReady{StepId(2)});
  EXPECT_EQ(ledger_.last<NormMeasured>().squares, 0);  // nothing of step 1 is left
}

// CASES T15: the next update waits until the copy is made.
TEST_F(ParameterShardTest, TheSnapshotIsOfOneStep) {
  begin(false);
  set(memory_.gradient, 2);
  tell(BlockGradientReady{StepId(1)});
  tell(decide(1));
  const auto master = values(memory_.master), m = values(memory_.m), v = values(memory_.v);

  set(memory_.gradient, -1);
  const auto begin_ns = world_.clock().now_ns();
  shard_.send(SnapshotRequested{StepId(1)});
  shard_.send(BlockGradientReady{StepId(2)});
  ASSERT_TRUE(world_.run(10'000, [&] { return ledger_.count<NormMeasured>() == 2; }).ok());
  EXPECT_LT(world_.clock().now_ns() - begin_ns, 500'000);  // nothing but an update waits for the copy
  shard_.send(decide(2));
  settle();
  ASSERT_EQ(writer_.count<SnapshotTaken>(), 1u);
  EXPECT_EQ(writer_.last<SnapshotTaken>().step, StepId(1));
  EXPECT_EQ(values(memory_.snapshot_master), master);
  EXPECT_EQ(values(memory_.snapshot_m), m);
  EXPECT_EQ(values(memory_.snapshot_v), v);
  EXPECT_NE(values(memory_.master), master);  // the update did come
  EXPECT_EQ(ledger_.last<ShardUpdated>().step, StepId(2));
}

// It is asked for when the update has been enqueued, not when it is done.
TEST_F(ParameterShardTest, TheSnapshotWaitsForTheUpdateItIsOf) {
  begin(false);
  set(memory_.gradient, 2);
  tell(BlockGradientReady{StepId(1)});
  kernel_ns_ = 1'000'000'000;
  const auto before = ledger_.count<ShardUpdated>();
  shard_.send(decide(1));
  ASSERT_TRUE(world_.run(10'000, [&] { return ledger_.count<ShardUpdated>() > before; }).ok());
  const auto old = values(memory_.master);
  tell(SnapshotRequested{StepId(1)});
  ASSERT_EQ(writer_.count<SnapshotTaken>(), 1u);
  EXPECT_NE(values(memory_.master), old) << "the update was done before it was asked";
  EXPECT_EQ(values(memory_.snapshot_master), values(memory_.master));
  EXPECT_EQ(values(memory_.snapshot_m), values(memory_.m));
  EXPECT_EQ(values(memory_.snapshot_v), values(memory_.v));
}

TEST_F(ParameterShardTest, TakesASnapshotOfAnotherStepForABug) {
  begin(false);
  EXPECT_DEATH(tell(SnapshotRequested{StepId(4)}), "is at step 0, a snapshot of 4 was asked");
}

}  // namespace
}  // namespace troupe::test
