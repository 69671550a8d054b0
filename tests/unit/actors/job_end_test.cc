// The end of a training job of several ranks, where one does not come to it. CASES T27: no rank ends well then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/local/local_transport.h"
#include "kernels/cpu/cpu.h"
#include "runtime/base/first_cause.h"
#include "tests/support/tiny_job.h"

namespace troupe::test {
namespace {

using testing::HasSubstr;

class JobEnd : public testing::Test {
 protected:
  // Two ranks whose actors have all ended well; none has said so to the other.
  void SetUp() override {
    const std::vector<std::string> settings{"--training.steps=1", "--parallelism.data_parallel=2", "--job.heartbeat_timeout_s=0.5",
                                            "--limits.shutdown_seconds=0.6"};
    const std::string config = tiny_config(make_corpus(folder_.path(), 40), folder_.path() + "/out");
    for (int rank = 0; rank < 2; ++rank) {
      transports_.push_back(hub_.transport(Rank(rank)));
      auto world = actors::World::on_this_machine(kernels::cpu::table(), clock_);
      world.transport = transports_.back().get();
      auto job = make_job(config, settings, world);
      ASSERT_TRUE(job.ok()) << job.status();
      jobs_.push_back(*std::move(job));
    }
    for (auto& job : jobs_) job->start();
    for (auto& job : jobs_) ASSERT_TRUE(job->system().wait().ok());
  }
  void TearDown() override {
    for (auto& transport : transports_) transport->stop();
  }

  TemporaryFolder folder_;
  SteadyClock clock_;
  comm::LocalHub hub_{2};
  std::vector<std::unique_ptr<comm::Transport>> transports_;
  std::vector<std::unique_ptr<actors::TrainingJob>> jobs_;
};

TEST_F(JobEnd, NamesTheRankThatDiedAfterItsLastStep) {
  hub_.cut(Rank(1), due_to(Rank(1), "rank 1 has died"));
  const Status end = jobs_[0]->wait();
  EXPECT_THAT(std::string(end.message()), HasSubstr("rank 1 has died"));
  ASSERT_TRUE(first_cause(end));
  EXPECT_EQ(first_cause(end)->rank, Rank(1));
}

TEST_F(JobEnd, NamesTheRankThatDoesNotCome) {
  const Status end = jobs_[1]->wait();
  EXPECT_TRUE(absl::IsDeadlineExceeded(end)) << end;
  EXPECT_THAT(std::string(end.message()), HasSubstr("not at rank 0 within 0.6 s"));
}

}  // namespace
}  // namespace troupe::test
