// A graph over processes: here each process is a thread with a transport of its own.
#include "actors/control/job_graph.h"
#include "actors/inspect/http.h"
#include "actors/inspect/runtime_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <thread>

#include "comm/local/local_transport.h"
#include "runtime/base/first_cause.h"
#include "runtime/trace/state_file.h"

namespace troupe::test {
namespace {

using actor::Actor;
using actor::Delivery;
using actor::In;
using actor::Out;
using actors::JobGraph;
using testing::HasSubstr;

// Travels as it lies in memory.
struct Number {
  std::int64_t value = 0;
};
// Has fields of its own, found beside it.
struct Word {
  std::string text;
};
template <class Codec>
void fields(Codec& c, Word& m) { c(m.text); }

template <class T>
T nth(std::int64_t n);
template <>
Number nth<Number>(std::int64_t n) { return {n * n}; }
template <>
Word nth<Word>(std::int64_t n) { return {std::string(static_cast<std::size_t>(n % 100), 'a')}; }
bool same(const Number& a, const Number& b) { return a.value == b.value; }
bool same(const Word& a, const Word& b) { return a.text == b.text; }

template <class T>
class Sender final : public Actor {
 public:
  explicit Sender(std::int64_t count) : count_(count) { out.on_credit(&Sender::go_on); }
  Out<T> out{*this, "out"};

 private:
  void started() override { go_on(); }
  void go_on() {
    for (; next_ < count_ && out.ready(); ++next_) out.send(nth<T>(next_));
  }
  const std::int64_t count_;
  std::int64_t next_ = 0;
};

template <class T>
class Checker final : public Actor {
 public:
  Checker(std::int64_t count, std::int64_t& right) : count_(count), right_(right) {}
  In<T> in{*this, "in", &Checker::came};

 private:
  void came(Delivery<T> delivery) {
    right_ += same(delivery.message, nth<T>(next_));
    if (++next_ == count_) finish_job();
  }
  const std::int64_t count_;
  std::int64_t next_ = 0;
  std::int64_t& right_;
};

struct Fail {};
class Failing final : public Actor {
 public:
  Failing() { on(&Failing::now); }

 private:
  void started() override { send(self(), Fail{}); }
  void now(Fail) { fail(absl::DataLossError("a planted failure")); }
};
class Idle final : public Actor {};

// Ends when it is told to, whoever asks it to stop.
class Stubborn final : public Actor {
 public:
  struct Release {};
  Stubborn() { on(&Stubborn::release); }

 private:
  void stop_requested() override {}
  void release(Release) { stop(); }
};

// `build` for each rank, then all run at once; what each run gave.
std::vector<Status> run_all(int ranks, const std::function<void(JobGraph&, int)>& build) {
  comm::LocalHub hub(ranks);
  std::vector<std::unique_ptr<comm::Transport>> transports;
  std::vector<std::unique_ptr<JobGraph>> graphs;
  for (int rank = 0; rank < ranks; ++rank) {
    transports.push_back(hub.transport(Rank(rank)));
    graphs.push_back(std::make_unique<JobGraph>(transports.back().get()));
    build(*graphs.back(), rank);
  }
  std::vector<Status> results(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < graphs.size(); ++rank) {
    threads.emplace_back([&, rank] { results[rank] = graphs[rank]->run(); });
  }
  for (auto& thread : threads) thread.join();
  return results;
}

template <class T>
void expect_all_come(int credits) {
  constexpr std::int64_t kCount = 500;
  std::int64_t right = 0;
  const auto results = run_all(2, [&](JobGraph& graph, int rank) {
    if (rank == 0) {
      connect(graph.system().add<Sender<T>>("sender", kCount).out, graph.far().in<T>(Rank(1), "edge"), {.credits = credits});
    } else {
      connect(graph.far().out<T>(Rank(0), "edge", {.credits = credits}), graph.system().add<Checker<T>>("checker", kCount, right).in,
              {.credits = credits});
    }
  });
  for (const auto& result : results) EXPECT_TRUE(result.ok()) << result;
  EXPECT_EQ(right, kCount) << credits;
}

TEST(JobGraph, BringsMessagesWithoutTensorsInOrder) {
  for (const int credits : {1, 2, 7}) {
    expect_all_come<Number>(credits);
    expect_all_come<Word>(credits);
  }
}

// Repeated, since who leaves first would look dead to who is slower.
TEST(JobGraph, EndsEverywhereWhenAnyActorFinishes) {
  for (int round = 0; round < 50; ++round) {
    std::int64_t right = 0;
    const auto results = run_all(4, [&](JobGraph& graph, int rank) {
      if (rank == 2) {
        auto& sender = graph.system().add<Sender<Number>>("sender", 1);
        connect(sender.out, graph.system().add<Checker<Number>>("checker", 1, right).in, {.credits = 1});
      } else {
        graph.system().add<Idle>("idle");
      }
    });
    for (const auto& result : results) EXPECT_TRUE(result.ok()) << result;
  }
}

TEST(JobGraph, FailsEverywhereWithTheFirstCause) {
  const auto results = run_all(3, [](JobGraph& graph, int rank) {
    if (rank == 2) graph.system().add<Failing>("failing");
    else graph.system().add<Idle>("idle");
  });
  for (const auto& result : results) EXPECT_THAT(std::string(result.message()), HasSubstr("a planted failure"));
  for (const std::size_t rank : {0u, 1u}) {
    const auto cause = first_cause(results[rank]);
    ASSERT_TRUE(cause) << results[rank];
    EXPECT_EQ(cause->rank, Rank(2));
  }
}

TEST(JobGraph, NamesWhoDoesNotComeToTheEnd) {
  comm::LocalHub hub(2);
  const auto first = hub.transport(Rank(0)), second = hub.transport(Rank(1));
  JobGraph graph(first.get(), {}, std::chrono::milliseconds(50));
  std::int64_t right = 0;
  auto& sender = graph.system().add<Sender<Number>>("sender", 1);
  connect(sender.out, graph.system().add<Checker<Number>>("checker", 1, right).in, {.credits = 1});
  const Status result = graph.run();
  EXPECT_TRUE(absl::IsDeadlineExceeded(result)) << result;
  EXPECT_THAT(std::string(result.message()), HasSubstr("not at rank 1"));
}

TEST(JobGraph, AloneIsASystem) {
  std::int64_t right = 0;
  JobGraph graph(nullptr);
  auto& sender = graph.system().add<Sender<Number>>("sender", 3);
  connect(sender.out, graph.system().add<Checker<Number>>("checker", 3, right).in, {.credits = 1});
  EXPECT_TRUE(graph.run().ok());
  EXPECT_EQ(right, 3);
}

// What `troupe launch` says of a rank that has died, also of a user's program.
TEST(JobGraph, WritesDownWhatItsActorsDoWhereALauncherAsks) {
  std::string path = testing::TempDir() + "/state-XXXXXX";
  close(mkstemp(path.data()));
  setenv(trace::kStateFileVariable, path.c_str(), 1);
  {
    JobGraph graph(nullptr);
    graph.system().add<Failing>("failing");
    EXPECT_FALSE(graph.run().ok());
  }
  unsetenv(trace::kStateFileVariable);
  EXPECT_THAT(trace::read_state(path), testing::AllOf(HasSubstr("s before its end\n"), HasSubstr("failing: failed: "), HasSubstr("a planted failure")));
  unlink(path.c_str());
}

// Not after the patience: the transport has heard that it is gone, and why.
TEST(JobGraph, WhoLooksInsideHearsAtOnceOfARankThatIsGone) {
  comm::LocalHub hub(2);
  const auto ours = hub.transport(Rank(0)), theirs = hub.transport(Rank(1));
  JobGraph graph(ours.get());
  graph.be_inspectable("5ca1ab1e");
  const auto stubborn = graph.system().add<Stubborn>("stubborn").self();
  Status ended;
  std::thread here([&] { ended = graph.run(); });
  {
    JobGraph other(theirs.get());
    other.system().add<Failing>("failing");
    EXPECT_FALSE(other.run().ok());
  }
  const auto folder = actors::open_runtime_folder();
  ASSERT_TRUE(folder.ok()) << folder.status();
  std::string socket;
  for (const auto& card : actors::running_cards(*folder)) {
    if (card.job == "5ca1ab1e") socket = card.socket;
  }
  const auto began = std::chrono::steady_clock::now();
  std::string seen;
  do {  // until the word of it has come
    const auto answer = actors::http_get({.socket = socket}, "/v1/waits?patience_s=10", std::chrono::seconds(15));
    seen = answer.ok() ? *answer : answer.status().ToString();
  } while (seen.find("a planted failure") == std::string::npos && std::chrono::steady_clock::now() - began < std::chrono::seconds(8));
  EXPECT_THAT(seen, HasSubstr("rank 1: silent"));
  EXPECT_THAT(seen, HasSubstr("a planted failure"));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(8));
  stubborn.send(Stubborn::Release{});
  here.join();
  EXPECT_THAT(std::string(ended.message()), HasSubstr("a planted failure"));
}

}  // namespace
}  // namespace troupe::test
