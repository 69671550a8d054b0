// Pausing, stepping and letting go the actors of jobs that train, as a user does from another terminal; who may do so.
#include <sys/stat.h>

#include <random>

#include "actors/inspect/http.h"
#include "actors/inspect/runtime_folder.h"
#include "tests/proc/inspect/inspect_fixture.h"
#include "tests/proc/train/cluster.h"

namespace troupe::test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::HasSubstr;

class InspectControl : public Inspect {
 protected:
  std::vector<std::string> endless(int ranks) const {
    return launched(run_, ranks, "job", {"--training.steps=1000000", "--lr_scheduler.total_steps=1000000", "--job.heartbeat_timeout_s=20"});
  }
  std::string output() const { return run_.output("job"); }
  std::size_t steps() const { return steps_of(output()).size(); }
  bool trains(ToolProcess& job) const {
    return wait_until([&] { return steps() >= 2 || !job.running(); }) && job.running();
  }
  json row_of(const std::string& id) const { return json_of({"inspect", "mailbox", id, "--json"}).value("actor", json::object()); }
  std::vector<actors::JobCard> cards() const { return actors::running_cards(runtime()); }
  std::string token() const { return actors::read_token(actors::token_file(cards().at(0))).value_or(""); }
  StatusOr<std::string> tell(const std::string& what, const std::string& shown, int rank = 0) const {
    return actors::http_post({.socket = cards().at(static_cast<std::size_t>(rank)).socket, .token = shown}, what, 10s);
  }

  TinyRun run_;
};

TEST_F(InspectControl, AnActorPausesStepsAndGoesOn) {
  ToolProcess job(endless(2), folder());
  ASSERT_TRUE(trains(job)) << job.err();
  const Ended paused = tool({"pause", "1/stage-0"});
  ASSERT_EQ(paused.exit_code, 0) << paused.err;
  EXPECT_THAT(paused.out, testing::StartsWith("1/stage-0 "));
  // All wait for it: the ledger of the other rank, too.
  ASSERT_TRUE(wait_until([&] {
    const json waits = json_of({"inspect", "waits", "--json"});
    return !waits["roots"].empty() && waits["roots"][0]["id"] == "1/stage-0" && row_of("1/stage-0").value("depth", 0) > 0;
  }, 60s)) << tool({"inspect", "waits"}).out;
  const std::size_t before = steps();
  const json row = row_of("1/stage-0");
  EXPECT_EQ(row["state"], "paused");
  EXPECT_THAT(tool({"inspect", "waits"}).out, HasSubstr("rank 1 stage-0"));
  EXPECT_THAT(tool({"pause", "1/stage-0"}).out, HasSubstr("is paused already, for "));

  const json step = json_of({"step", "1/stage-0", "--json"});
  EXPECT_EQ(step.value("rank", -1), 1);
  EXPECT_EQ(step["actor"]["state"], "paused");
  ASSERT_TRUE(wait_until([&] { return row_of("1/stage-0").value("handled", 0) == row["handled"].get<int>() + 1; }, 20s));
  EXPECT_EQ(row_of("1/stage-0")["state"], "paused");
  EXPECT_LE(steps(), before + 1) << "one message is less than a step";

  EXPECT_THAT(tool({"resume", "1/stage-0"}).out, HasSubstr("goes on, with "));
  EXPECT_TRUE(wait_until([&] { return steps() >= before + 3; }, 60s));
  EXPECT_THAT(tool({"resume", "1/stage-0"}).out, HasSubstr("was not paused"));
  const Ended stepped = tool({"step", "1/stage-0"});
  EXPECT_EQ(stepped.exit_code, 2);
  EXPECT_THAT(stepped.err, HasSubstr("'stage-0' is not paused: pause it, then let it take a step"));
  EXPECT_THAT(tool({"pause", "1/stage-O"}).err, HasSubstr("there is no actor 'stage-O'; did you mean 'stage-0'?"));
  EXPECT_THAT(tool({"pause", "stage-0"}).err, HasSubstr("stage-0 is in several ranks: say one of 0/stage-0, 1/stage-0"));
  EXPECT_THAT(tool({"pause", "7/stage-0"}).err, HasSubstr("this job has ranks 0 to 1"));
  EXPECT_THAT(tool({"pause", "0/supervisor"}).err, HasSubstr("is never paused"));
  EXPECT_THAT(tool({"pause", "ledger"}).out, HasSubstr("0/ledger "));  // that is in one rank
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait(60s).exit_code, 0) << "a paused ledger must not keep the job from its end";
  EXPECT_THAT(job.err(), HasSubstr("actor 'ledger' of rank 0 is paused")) << "who finds the job standing still reads why";
  EXPECT_EQ(files(), 0u);
}

TEST_F(InspectControl, APausedActorKeepsNoJobFromDying) {
  for (const char* who : {"0/ledger", "0/replica", "0/device"}) {
    std::filesystem::remove_all(output());
    ToolProcess job(endless(2), folder());
    ASSERT_TRUE(trains(job)) << job.err();
    ASSERT_EQ(tool({"pause", who}).exit_code, 0) << who;
    ASSERT_TRUE(signal_process(pid_of_rank(output(), 1), SIGKILL));
    EXPECT_NE(job.wait(30s).exit_code, 0) << who;
    EXPECT_THAT(job.err(), HasSubstr("rank 1")) << who;
  }
}

// The ledger takes its last messages one by one, up to the one after which it ends the job; then an agent that is to hear of that is paused.
TEST_F(InspectControl, TheEndOfTheJobEndsThePausesOfEveryRank) {
  constexpr int kSteps = 60;
  for (const char* who : {"0/replica", "1/replica", "0/replica@1"}) {
    SCOPED_TRACE(who);
    std::filesystem::remove_all(output());
    ToolProcess job(launched(run_, 2, "job", {"--training.steps=60", "--lr_scheduler.total_steps=60", "--job.heartbeat_timeout_s=8",
                                              "--limits.shutdown_seconds=10"}), folder());
    ASSERT_TRUE(wait_until([&] { return (!cards().empty() && tell("/v1/pause?actor=0/ledger", token()).ok()) || !job.running(); }));
    ASSERT_TRUE(job.running()) << "it ended before the ledger was paused: " << job.err();
    const std::string shown = token();
    const auto ledger = [&] {
      return json::parse(actors::http_get({.socket = cards().at(0).socket}, "/v1/mailbox?actor=0/ledger", 10s).value_or("{}")).value("actor", json::object());
    };
    const auto next = [&](const json& row) { return row["waiting"].empty() ? "" : row["waiting"][0]["type"].get<std::string>(); };
    const auto at_its_end = [&] { return steps() == kSteps && next(ledger()) == "SaveDone"; };
    ASSERT_TRUE(wait_until([&] {
      if (at_its_end() || !job.running()) return true;
      if (const json row = ledger(); row["state"] == "paused" && row["depth"] > 0 && next(row) != "SaveDone") (void)tell("/v1/step?actor=0/ledger", shown);
      return false;
    })) << ledger();
    ASSERT_TRUE(at_its_end()) << job.err();
    EXPECT_THAT(tool({"pause", who}).out, HasSubstr(" is paused, with an empty mailbox"));
    (void)tool({"resume", "0/ledger"});  // the job may be gone before the answer comes
    EXPECT_EQ(job.wait(60s).exit_code, 0) << job.err();
    EXPECT_THAT(job.err(), testing::Not(HasSubstr("but not at")));
    EXPECT_EQ(files(), 0u);
  }
}

// Whoever is asked, and whoever is paused.
TEST_F(InspectControl, ARequestToStopEndsThePausesOfEveryRank) {
  for (const auto& [who, asked] : std::vector<std::pair<std::string, int>>{{"0/ledger", 1}, {"1/stage-0", 0}, {"1/device", 1}, {"0/replica@1", 1}}) {
    SCOPED_TRACE(who);
    std::filesystem::remove_all(output());
    ToolProcess job(launched(run_, 2, "job", {"--training.steps=100000", "--job.heartbeat_timeout_s=8"}), folder());
    ASSERT_TRUE(wait_until([&] { return steps() > 1 || !job.running(); })) << job.err();
    EXPECT_THAT(tool({"pause", who}).out, HasSubstr("pause"));
    const json rank = json_of({"inspect", "job", "--json"})["ranks"][static_cast<std::size_t>(asked)];
    ASSERT_TRUE(signal_process(rank["pid"].get<pid_t>(), SIGUSR1)) << rank;
    EXPECT_EQ(job.wait(60s).exit_code, 0) << job.err();
    EXPECT_THAT(job.err(), HasSubstr("with a checkpoint"));
  }
}

// Random pauses, steps and resumes of all actors of all ranks until the run is over.
TEST_F(InspectControl, LossesAreTheSameBitsWhateverWasPaused) {
  for (const int ranks : {1, 2}) {
    const auto words = [&](const std::string& name) {
      const std::vector<std::string> more{"--training.steps=25", "--lr_scheduler.total_steps=25"};
      return ranks > 1 ? launched(run_, ranks, name, more) : run_.train(name, more);
    };
    const std::string plain = "plain-" + std::to_string(ranks), meddled = "meddled-" + std::to_string(ranks);
    ASSERT_EQ(tool(words(plain)).exit_code, 0);
    ToolProcess job(words(meddled), folder());
    ASSERT_TRUE(wait_until([&] { return !cards().empty() || !job.running(); }));
    const auto actors = [&] {
      std::vector<std::string> ids;
      for (const auto& row : json_of({"inspect", "actors", "--json"}).value("actors", json::array())) {
        ids.push_back(std::to_string(row["rank"].get<int>()) + "/" + row["name"].get<std::string>());
      }
      return ids;
    };
    std::vector<std::string> ids;
    ASSERT_TRUE(wait_until([&] { return (ids = actors()).size() > 5 || !job.running(); }));
    const std::string shown = token();
    const auto all = cards();
    std::mt19937_64 random(static_cast<std::uint64_t>(ranks));
    const auto tell_it = [&](const char* what, const std::string& id) {
      const auto& place = all[random() % all.size()];
      return actors::http_post({.socket = place.socket, .token = shown}, std::string("/v1/") + what + "?actor=" + actors::in_query(id), 10s);
    };
    int told = 0;
    while (job.running() && steps_of(run_.output(meddled)).size() < 25) {
      const std::string& id = ids[random() % ids.size()];
      if (tell_it("pause", id).ok()) ++told;
      for (std::uint64_t i = random() % 4; i > 0; --i) (void)tell_it("step", id);
      (void)tell_it("resume", id);
    }
    EXPECT_EQ(job.wait().exit_code, 0) << job.err();
    EXPECT_GT(told, 5);
    EXPECT_EQ(steps_of(run_.output(meddled)), steps_of(run_.output(plain))) << ranks << " ranks, told " << told << " times";
    EXPECT_EQ(steps_of(run_.output(plain)).size(), 25u);
  }
}

TEST_F(InspectControl, OnlyWhoHasTheTokenTellsAnything) {
  ToolProcess job(endless(2), folder());
  ASSERT_TRUE(trains(job)) << job.err();
  ASSERT_TRUE(here(2));
  const std::string right = token();
  ASSERT_EQ(right.size(), 64u);
  for (const auto& card : cards()) {
    struct stat found{};
    ASSERT_EQ(stat(actors::token_file(card).c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0600u);
    EXPECT_EQ(actors::read_token(actors::token_file(card)).value_or(""), right) << "the same on all ranks";
  }
  std::string wrong = right;
  wrong.back() = wrong.back() == '0' ? '1' : '0';
  for (const int rank : {0, 1}) {
    EXPECT_TRUE(absl::IsUnauthenticated(tell("/v1/pause?actor=0/stage-0", wrong, rank).status()));
    EXPECT_TRUE(absl::IsUnauthenticated(tell("/v1/pause?actor=0/stage-0", "", rank).status()));
    EXPECT_TRUE(absl::IsUnauthenticated(tell("/v1/nonsense", wrong, rank).status()));
  }
  EXPECT_NE(row_of("0/stage-0")["state"], "paused");
  const json seen = json::parse(actors::http_get({.socket = cards().at(0).socket}, "/v1/job", 10s).value_or("{}"));
  EXPECT_EQ(seen.value("refused", 0), 6);
  EXPECT_EQ(seen["ranks"][1].value("refused", 0), 3);
  EXPECT_TRUE(tell("/v1/pause?actor=0/stage-0", right, 1).ok()) << "asked of rank 1 about rank 0";
  EXPECT_TRUE(tell("/v1/resume?actor=0/stage-0", right, 0).ok());
  EXPECT_TRUE(absl::IsUnimplemented(tell("/v1/job", right).status()));
  EXPECT_TRUE(absl::IsUnimplemented(actors::http_get({.socket = cards().at(0).socket, .token = right}, "/v1/pause?actor=0/stage-0", 10s).status()));

  const std::string file = folder() + "/token";
  const auto with_file = [&](const std::string& text, mode_t mode) {
    std::filesystem::remove(file);
    std::ofstream(file) << text;
    EXPECT_EQ(chmod(file.c_str(), mode), 0);
    return tool({"pause", "0/stage-0", "--token-file", file});
  };
  EXPECT_THAT(with_file(wrong, 0600).err, HasSubstr("this is not the job's token"));
  EXPECT_THAT(with_file(right, 0644).err, HasSubstr("is open to others (mode 0644); say chmod 600 " + file));
  EXPECT_THAT(with_file("my secret", 0600).err, testing::AllOf(HasSubstr("holds no token"), testing::Not(HasSubstr("my secret"))));
  EXPECT_EQ(with_file(right + "\n", 0600).exit_code, 0);
  EXPECT_THAT(tool({"pause", "0/stage-0", "--token-file", file + "x"}).err, HasSubstr("No such file"));
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait(60s).exit_code, 0);
  EXPECT_THAT(job.err(), testing::Not(HasSubstr(right)));
  EXPECT_EQ(files(), 0u);
}

}  // namespace
}  // namespace troupe::test
