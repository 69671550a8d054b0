// Training while somebody pauses, steps and lets go any actors of any rank: the time changes, the numbers do not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "runtime/base/log.h"
#include "tests/sim/seeds.h"
#include "tests/sim/train/trial.h"

namespace troupe::test {
namespace {

using actor::Control;

class PausedTraining : public testing::Test {
 protected:
  PausedTraining() { set_log_level(LogLevel::kWarning); }
  ~PausedTraining() override { set_log_level(LogLevel::kInfo); }
  std::string folder(const std::string& name) { return absl::StrCat(folder_.path(), "/", name); }
  Trial undisturbed(const JobShape& shape) { return run_trial(1, shape, corpus_, folder("undisturbed")); }

  const bool in_memory_ = keep_files_in_memory();
  TemporaryFolder folder_;
  const std::string corpus_ = make_corpus(folder_.path(), 20);
};

// Tells random actors of random ranks random things; where nothing goes on any more, lets a paused one take a step, or all go on.
class Meddler {
 public:
  explicit Meddler(std::uint64_t seed) : random_(seed) {}

  bool meddle(const std::vector<actors::TrainingJob*>& jobs, bool still) {
    look(jobs);
    if (!still) {
      if (random_() % 16 == 0) tell(one_of(actors_), static_cast<Control>(random_() % 3));
      return false;
    }
    std::vector<Somebody> paused;
    for (const auto& somebody : actors_) {
      if (somebody.row().state == trace::State::kPaused) paused.push_back(somebody);
    }
    if (paused.empty()) return false;
    ++stills;
    if (random_() % 4 != 0) {
      const Somebody& somebody = one_of(paused);
      if (somebody.row().depth > 0) {
        tell(somebody, Control::kStep);
        return true;
      }
    }
    for (const auto& somebody : paused) tell(somebody, Control::kResume);
    return true;
  }
  int times_told = 0, stills = 0;

 private:
  struct Somebody {
    actors::TrainingJob* job;
    std::string name;
    std::shared_ptr<const trace::Probe> probe;
    trace::ActorRow row() const { return probe->row(job->system().probes().texts()); }
  };
  template <class T>
  const T& one_of(const std::vector<T>& all) {
    return all[random_() % all.size()];
  }
  void look(const std::vector<actors::TrainingJob*>& jobs) {
    if (!actors_.empty()) return;
    for (auto* job : jobs) {
      for (const auto& row : job->system().probes().snapshot().actors) actors_.push_back({job, row.name, job->system().probes().find(row.name)});
    }
  }
  void tell(const Somebody& whom, Control what) {
    if (whom.job->control(what, whom.name).ok()) ++times_told;
  }

  std::mt19937_64 random_;
  std::vector<Somebody> actors_;
};

void expect_same_numbers(std::uint64_t seed, const JobShape& shape, const Outcome& expected, const std::string& corpus, const std::string& output) {
  Meddler meddler(seed);
  const Trial trial = run_trial(seed, shape, corpus, output, {.meddle = [&](const auto& jobs, bool still) { return meddler.meddle(jobs, still); }});
  SCOPED_TRACE(absl::StrCat("seed ", seed, " (", shape.describe(), "), told ", meddler.times_told, " times, stood still ", meddler.stills, " times"));
  ASSERT_TRUE(trial.outcome.status.ok()) << trial.outcome.status;
  ASSERT_EQ(trial.broken, "");  // no mailbox above its bound, no credit lost
  ASSERT_EQ(trial.unfinished, "");
  ASSERT_GT(meddler.times_told, 20);
  ASSERT_EQ(trial.outcome.losses, expected.losses);
  ASSERT_EQ(trial.outcome.norms, expected.norms);
  ASSERT_EQ(trial.outcome.sample_hashes, expected.sample_hashes);
  std::filesystem::remove_all(output);
}

TEST_F(PausedTraining, HasTheSameBitsAsUndisturbed) {
  const JobShape shape{.pipeline = 2, .evaluate = true, .save = true};
  const Trial expected = undisturbed(shape);
  ASSERT_TRUE(expected.outcome.status.ok()) << expected.outcome.status;
  ASSERT_EQ(expected.outcome.losses.size(), 3u);
  for (std::uint64_t seed = 1; seed <= seeds(40, 8); ++seed) {
    expect_same_numbers(seed, shape, expected.outcome, corpus_, folder(absl::StrCat("seed-", seed)));
    if (HasFatalFailure()) return;
  }
}

TEST_F(PausedTraining, OfTwoRanksHasTheSameBitsAsUndisturbed) {
  const JobShape shape{.pipeline = 2, .replicas = 2, .zero = 1};
  const Trial expected = undisturbed(shape);
  ASSERT_TRUE(expected.outcome.status.ok()) << expected.outcome.status;
  for (std::uint64_t seed = 1; seed <= seeds(20, 4); ++seed) {
    expect_same_numbers(seed, shape, expected.outcome, corpus_, folder(absl::StrCat("seed-", seed)));
    if (HasFatalFailure()) return;
  }
}

TEST_F(PausedTraining, OfAPipelineOverProcessesHasTheSameBitsAsUndisturbed) {
  const JobShape shape{.pipeline = 4, .parts = 2, .layers = 4};
  const Trial expected = undisturbed(shape);
  ASSERT_TRUE(expected.outcome.status.ok()) << expected.outcome.status;
  for (std::uint64_t seed = 1; seed <= seeds(20, 4); ++seed) {
    expect_same_numbers(seed, shape, expected.outcome, corpus_, folder(absl::StrCat("seed-", seed)));
    if (HasFatalFailure()) return;
  }
}

// The last message but that of the job's end has been handled when the actor is paused that is to hear of it: the replica's agent of some
// rank, or what stands for one of another rank. Nothing but the end itself lets it go on.
TEST_F(PausedTraining, TheEndOfTheJobEndsThePausesOfEveryRank) {
  using Place = std::pair<std::size_t, std::string>;  // rank, actor
  const auto agents = [](const JobShape& shape) {
    std::vector<Place> places;
    for (int rank = 0; rank < shape.world(); ++rank) places.emplace_back(rank, "replica");
    for (int rank = 1; rank < shape.world(); ++rank) places.emplace_back(0, absl::StrCat("replica@", rank));
    return places;
  };
  for (const JobShape& shape : {JobShape{.replicas = 2, .zero = 1}, JobShape{.pipeline = 4, .save = true, .parts = 2, .layers = 4}}) {
    for (std::uint64_t seed = 1; seed <= seeds(6, 2); ++seed) {
      std::map<Place, std::int64_t> before_the_end;  // messages handled
      const Trial expected = run_trial(seed, shape, corpus_, folder("undisturbed"), {.meddle = [&](const auto& jobs, bool) {
        for (const auto& place : agents(shape)) {
          const auto probe = jobs[place.first]->system().probes().find(place.second);
          if (probe && probe->handled_count() >= 1) before_the_end[place] = probe->handled_count() - 1;  // the last that it has outlived is the job's end
        }
        return false;
      }});
      std::filesystem::remove_all(folder("undisturbed"));
      ASSERT_TRUE(expected.outcome.status.ok()) << expected.outcome.status;
      for (const auto& place : agents(shape)) {
        SCOPED_TRACE(absl::StrCat("seed ", seed, " (", shape.describe(), "): ", place.first, "/", place.second));
        bool paused = false;
        const Trial trial = run_trial(seed, shape, corpus_, folder("paused"), {.meddle = [&](const auto& jobs, bool) {
          auto& job = *jobs[place.first];
          const auto probe = job.system().probes().find(place.second);
          if (!paused && probe && probe->handled_count() == before_the_end.at(place)) paused = job.control(Control::kPause, place.second).ok();
          return false;
        }});
        std::filesystem::remove_all(folder("paused"));
        EXPECT_TRUE(paused);
        EXPECT_TRUE(trial.outcome.status.ok()) << trial.outcome.status;
        EXPECT_THAT(trial.unfinished, testing::Not(testing::HasSubstr("has not ended")));
        EXPECT_EQ(trial.unfinished, expected.unfinished);
        EXPECT_EQ(trial.broken, "");
        EXPECT_EQ(trial.outcome.losses, expected.outcome.losses);
        for (const auto& end : trial.ends) EXPECT_TRUE(end.left() && end.status.ok()) << end.status;
        if (HasFailure()) return;
      }
    }
  }
}

// Somebody asks the job to end while an actor is paused in the middle of a step.
TEST_F(PausedTraining, ARequestToStopEndsThePauses) {
  const JobShape shape{.pipeline = 2, .save = true};
  for (const char* who : {"ledger", "replica", "device", "stage-1", "source"}) {
    bool paused = false, asked = false;
    const Trial trial = run_trial(3, shape, corpus_, folder(who), {.meddle = [&](const auto& jobs, bool still) {
      auto& job = *jobs.front();
      const auto ledger = job.system().probes().find("ledger");
      if (!paused && ledger && ledger->handled_count() >= 12) paused = job.control(Control::kPause, who).ok();
      if (!still || asked) return false;
      asked = true;
      job.request_stop("test");
      return true;
    }});
    SCOPED_TRACE(who);
    EXPECT_TRUE(paused && asked);
    ASSERT_TRUE(trial.outcome.status.ok()) << trial.outcome.status;
    EXPECT_THAT(trial.unfinished, testing::Not(testing::HasSubstr("has not ended")));  // batches read ahead have their slots still
    EXPECT_LT(trial.outcome.losses.size(), 3u) << "it went on to its own end";
  }
}

// The process whose actors are paused hears that another is gone, and fails as it would have.
TEST_F(PausedTraining, ALostRankEndsThePauses) {
  const JobShape shape{.replicas = 2};
  for (const char* who : {"ledger", "replica", "replicas", "device"}) {
    bool paused = false, lost = false;
    const Trial trial = run_trial(4, shape, corpus_, folder(who), {.meddle = [&](const auto& jobs, bool still) {
      auto& job = *jobs.front();
      const auto ledger = job.system().probes().find("ledger");
      if (!paused && ledger && ledger->handled_count() >= 6) paused = job.control(Control::kPause, who).ok();
      if (!still || lost) return false;
      lost = true;
      job.peer_went_down(Rank(1), absl::UnavailableError("rank 1 has died"));
      return true;
    }});
    SCOPED_TRACE(who);
    EXPECT_TRUE(paused && lost);
    EXPECT_THAT(std::string(trial.outcome.status.message()), testing::HasSubstr("rank 1 has died"));
    EXPECT_TRUE(trial.ends.at(0).left());
  }
}

}  // namespace
}  // namespace troupe::test
