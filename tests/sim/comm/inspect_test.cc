// Questions to all ranks over the simulated network: each ends in time with something about every rank, and with the answer of whoever can be
// reached and answers, whatever befalls the others.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/inspect/relay.h"
#include "comm/sim/sim_network.h"
#include "tests/sim/fault.h"
#include "tests/sim/seeds.h"

namespace troupe::test {
namespace {

using comm::InspectRelay;
using comm::InspectReply;

class InspectedRanks {
 public:
  InspectedRanks(std::uint64_t seed, FaultKind kind) : draws_(seed, 2) {
    world_ = draws_.one_in(4) ? 10 + static_cast<int>(draws_.below(80)) : 2 + static_cast<int>(draws_.below(9));
    comm::SimNetworkOptions options{.world = world_, .seed = seed};
    options.eager_bytes_most = draws_.one_in(2) ? 0 : 8'192;
    options.told_of_a_crash = draws_.one_in(2) ? 0.5 : 0;
    network_ = std::make_unique<comm::SimNetwork>(clock_, options);
    fault = Fault::draw(kind, draws_, world_, kFaultWithinNs, options.heartbeat_timeout_ns);
    fault.schedule(*network_);
    hanging_ = draws_.one_in(3) ? draws_.rank(world_) : Rank(-1);
    for (int rank = 0; rank < world_; ++rank) {
      Process& process = processes_.emplace_back(*this, Rank(rank));
      EXPECT_TRUE(process.transport->start().ok());
    }
    for (std::int64_t count = 1 + draws_.below(5); count > 0; --count) schedule_ask();
  }
  InspectedRanks(const InspectedRanks&) = delete;
  InspectedRanks& operator=(const InspectedRanks&) = delete;
  ~InspectedRanks() {
    for (Process& process : processes_) process.transport->stop();
  }

  void run() {
    ASSERT_TRUE(test::run(clock_, *network_)) << "it does not end";
    EXPECT_EQ(network_->unfinished(), "");
    for (const Process& process : processes_) EXPECT_EQ(process.relay.refused(), 0);
  }
  Fault fault;
  int answers = 0, failures = 0;

 private:
  static constexpr std::int64_t kFaultWithinNs = 50'000'000;
  struct Process final : InspectRelay::Host {
    Process(InspectedRanks& job, Rank its) : ranks(job), rank(its), transport(job.network_->transport(its)), relay(*transport, job.clock_, *this) {
      transport->handle(comm::Channel::kInspect, [this](comm::Arrival arrival) { relay.arrive(std::move(arrival)); });
      transport->on_peer_down([this](Rank peer, const Status& cause) { relay.peer_down(peer, cause); });
    }
    // One answer after the other.
    std::int64_t compute(std::int64_t number, const std::string& question) override {
      if (rank == ranks.hanging_) return number;
      free_ns = std::max(free_ns, ranks.clock_.now_ns()) + ranks.draws_.below(500'000);
      ranks.network_->at(free_ns, [this, number, question] {
        transport->post([this, number, question] { relay.answered(number, answer(rank, question)); });
      });
      return number;
    }
    void forget(std::int64_t) override {}
    void wake_at(std::int64_t time_ns) override {
      ranks.network_->at(time_ns, [this] { transport->post([this] { relay.tick(); }); });
    }

    InspectedRanks& ranks;
    const Rank rank;
    const std::unique_ptr<comm::Transport> transport;
    InspectRelay relay;
    std::int64_t free_ns = 0;
  };

  // Some are large.
  static std::string answer(Rank rank, const std::string& question) {
    return absl::StrCat(question, " ", rank.value, std::string(rank.value % 3 == 0 ? 90'000 : 10, 'x'));
  }

  void schedule_ask() {
    const Rank by = draws_.rank(world_);
    // So long that nobody alive is too slow, or so short that nearly everybody is.
    const bool long_enough = !draws_.one_in(4);
    const std::int64_t patience_ns = long_enough ? 3'000'000'000 + draws_.below(2'000'000'000) : 1 + draws_.below(2'000'000);
    const std::int64_t at_ns = draws_.below(2 * kFaultWithinNs);
    const std::string question = absl::StrCat("question ", asks_);
    auto& of = replies_.emplace_back();
    ++asks_;
    network_->at(at_ns, [this, by, patience_ns, question, &of, long_enough, at_ns] {
      processes_[static_cast<std::size_t>(by.value)].transport->post([this, by, patience_ns, question, &of, long_enough, at_ns] {
        processes_[static_cast<std::size_t>(by.value)].relay.ask(question, patience_ns, [&of](InspectReply reply) { of[reply.rank].push_back(std::move(reply)); });
        network_->at(clock_.now_ns() + patience_ns, [this, by, question, &of, long_enough, at_ns] {
          // A paused one looks at the clock when it runs again.
          if (network_->runs(by)) check(by, question, of, long_enough, at_ns);
        });
      });
    });
  }

  void check(Rank by, const std::string& question, const std::map<Rank, std::vector<InspectReply>>& of, bool long_enough, std::int64_t at_ns) {
    SCOPED_TRACE(absl::StrCat("rank ", by.value, " of ", world_, " asked ", question, " at ", at_ns, " ns"));
    const auto reached = reachable(by);
    EXPECT_FALSE(of.contains(by));
    for (int number = 0; number < world_; ++number) {
      const Rank rank(number);
      if (rank == by) continue;
      const auto found = of.find(rank);
      if (found == of.end()) {
        ADD_FAILURE() << "nothing is known of rank " << rank;
        continue;
      }
      const auto& replies = found->second;
      EXPECT_TRUE(replies.size() == 1 || (replies.size() == 2 && !replies[0].status.ok() && replies[1].status.ok())) << "rank " << rank;
      const InspectReply& last = replies.back();
      ++(last.status.ok() ? answers : failures);
      const bool can_answer = reached[static_cast<std::size_t>(number)] && rank != hanging_;
      // In haste a rank may be asked around while it still passes on that one below it is gone: he may answer the other.
      const bool never_could = rank == hanging_ || (!can_answer && long_enough && at_ns > fault.heard_by_ns(*network_));
      EXPECT_TRUE(!last.status.ok() || last.text == answer(rank, question)) << "rank " << rank;
      EXPECT_TRUE(!(can_answer && long_enough) || last.status.ok()) << "rank " << rank << ": " << last.status;
      EXPECT_TRUE(!never_could || !last.status.ok()) << "rank " << rank;
    }
  }
  // Who is asked by somebody that can reach him: his parent, or whoever asked that if it was in vain.
  std::vector<bool> reachable(Rank by) const {
    const comm::RankTree tree(by, world_);
    std::vector<bool> reached(static_cast<std::size_t>(world_), true);
    std::vector<std::pair<Rank, Rank>> asked;  // by whom, who
    for (const Rank child : tree.children(by)) asked.emplace_back(by, child);
    for (std::size_t next = 0; next < asked.size(); ++next) {
      const auto [whom, rank] = asked[next];
      const bool can = !fault.divides(whom, rank);
      reached[static_cast<std::size_t>(rank.value)] = can;
      for (const Rank child : tree.children(rank)) asked.emplace_back(can ? rank : whom, child);
    }
    return reached;
  }

  VirtualClock clock_;
  Draws draws_;
  int world_ = 0, asks_ = 0;
  Rank hanging_{-1};  // its answers never come
  std::unique_ptr<comm::SimNetwork> network_;
  std::deque<std::map<Rank, std::vector<InspectReply>>> replies_;
  std::deque<Process> processes_;
};

TEST(InspectSim, EveryAskEndsInTimeWithOneReplyOfEachRank) {
  const std::uint64_t count = seeds(400, 60);
  int answers = 0, failures = 0;
  for (std::uint64_t seed = 0; seed < count && !testing::Test::HasFailure(); ++seed) {
    InspectedRanks ranks(seed, static_cast<FaultKind>(seed % kFaultKinds));
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", ", ranks.fault.describe()));
    ranks.run();
    answers += ranks.answers;
    failures += ranks.failures;
  }
  printf("%d seeds; %d answers, %d reasons why there is none\n", static_cast<int>(count), answers, failures);
  EXPECT_GT(answers, 0);
  EXPECT_GT(failures, 0);
}

}  // namespace
}  // namespace troupe::test
