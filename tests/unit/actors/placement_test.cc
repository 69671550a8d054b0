#include "actors/plan/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "actors/plan/plan.h"
#include "comm/local/local_transport.h"
#include "kernels/cpu/cpu.h"
#include "tests/support/tiny_job.h"

namespace troupe::plan {
namespace {

using testing::ElementsAre, testing::HasSubstr;

TEST(Placement, GivesEachProcessConsecutivePositions) {
  const auto placement = Placement::of(2, 4, 4);
  ASSERT_TRUE(placement.ok()) << placement.status();
  EXPECT_EQ(placement->world(), 4);
  std::vector<int> positions;  // replica * stages + stage
  for (int rank = 0; rank < 4; ++rank) {
    const int part = placement->part_of(Rank(rank));
    EXPECT_EQ(placement->rank_of(placement->replica_of(Rank(rank)), part), Rank(rank));
    for (int stage = placement->first_stage(part); stage < placement->end_stage(part); ++stage) {
      EXPECT_EQ(placement->part_of_stage(stage), part);
      positions.push_back(placement->replica_of(Rank(rank)) * 4 + stage);
    }
  }
  EXPECT_THAT(positions, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(placement->ranks_of_part(1), ElementsAre(Rank(1), Rank(3)));
  EXPECT_TRUE(!placement->leaves(0) && placement->leaves(1) && !placement->leaves(2) && !placement->leaves(3));
}

TEST(Placement, OfNoNumberOfProcessesIsOneForEachReplica) {
  const auto placement = Placement::of(3, 4, 0);
  ASSERT_TRUE(placement.ok());
  EXPECT_EQ(placement->world(), 3);
  EXPECT_EQ(placement->parts, 1);
}

TEST(Placement, RefusesAWorldThatDoesNotWorkAndNamesThoseThatDo) {
  for (const int wrong : {1, 3, 5, 6, 7, 16}) {
    const auto placement = Placement::of(2, 4, wrong);
    ASSERT_TRUE(absl::IsInvalidArgument(placement.status())) << wrong;
    EXPECT_THAT(std::string(placement.status().message()),
                testing::AllOf(HasSubstr(absl::StrCat(wrong, wrong == 1 ? " process " : " processes ")), HasSubstr("Start 2, 4 or 8")));
  }
  for (const int right : {2, 4, 8}) EXPECT_TRUE(Placement::of(2, 4, right).ok()) << right;
}

StatusOr<JobConfig> tiny_pipeline(const std::string& corpus, const std::string& output) {
  return parse_job_config(test::tiny_config(corpus, output), "test.toml",
                          {"--parallelism.pipeline=4", absl::StrCat("--data.validation=", corpus), "--validation.interval=2", "--validation.steps=2"});
}

// Every process takes what the plan says for its stages, and not for those of others.
TEST(Placement, TakesMemoryForTheStagesOfAProcessOnly) {
  test::TemporaryFolder folder;
  const std::string corpus = test::make_corpus(folder.path(), 20);
  const auto job = tiny_pipeline(corpus, absl::StrCat(folder.path(), "/run"));
  ASSERT_TRUE(job.ok()) << job.status();
  const auto whole = test::plan_for(*job, kernels::cpu::table(), 1), cut = test::plan_for(*job, kernels::cpu::table(), 4);
  ASSERT_TRUE(whole.ok() && cut.ok()) << whole.status() << cut.status();
  ASSERT_EQ(cut->memory.size(), 4u);
  const SteadyClock clock;
  comm::LocalHub hub(4);
  std::vector<std::unique_ptr<comm::Transport>> transports;
  std::map<std::string, std::int64_t> sum;
  for (int rank = 0; rank < 4; ++rank) {
    transports.push_back(hub.transport(Rank(rank)));
    auto world = actors::World::on_this_machine(kernels::cpu::table(), clock);
    world.transport = transports.back().get();
    const auto made = actors::TrainingJob::create(*job, *cut, world, {.console = actors::Reporter::Console::kNone});
    ASSERT_TRUE(made.ok()) << made.status();
    const auto& memory = cut->memory[static_cast<std::size_t>(rank)];
    EXPECT_EQ((*made)->summary().pool_used_bytes, memory.pool_bytes) << rank;
    for (const auto& [term, bytes] : memory.bytes) sum[term] += bytes;
  }
  // What a job has once, whoever has it.
  for (const char* term : {"parameters", "optimizer", "gradients", "snapshot", "activations"}) EXPECT_EQ(sum[term], whole->memory_bytes.at(term)) << term;
  EXPECT_EQ(sum["edges"], 2 * whole->memory_bytes.at("edges"));  // a buffer on either side
  for (const int middle : {1, 2}) EXPECT_LT(cut->memory[static_cast<std::size_t>(middle)].pool_bytes, whole->pool_bytes / 4) << middle;
}

TEST(Placement, IsPrintedWithThePlan) {
  const auto job = tiny_pipeline("corpus", "run");
  ASSERT_TRUE(job.ok()) << job.status();
  Cluster cluster{.threads = 1, .memory_bytes = 1 << 30, .processes = 2};
  const auto plan = make_plan(*job, cluster, kernels::cpu::table());
  ASSERT_TRUE(plan.ok()) << plan.status();
  const std::string text = describe(*plan, cluster);
  for (const char* said : {"stage-1      layers 1..1, at most 3 of 3 in flight (", "stage-2      layers 2..2, at most 2 of 2 in flight (", "), in rank 1\n",
                           "on either side, to another process", "memory of the process that takes most"}) {
    EXPECT_THAT(text, HasSubstr(said));
  }
  cluster.processes = 3;
  EXPECT_TRUE(absl::IsInvalidArgument(make_plan(*job, cluster, kernels::cpu::table()).status()));
}

}  // namespace
}  // namespace troupe::plan
