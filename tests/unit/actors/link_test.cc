#include "actors/control/link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <limits>
#include <random>
#include <thread>

#include "actors/control/fields.h"
#include "comm/local/local_transport.h"

namespace troupe::test {
namespace {

using namespace actors;

// Keeps what comes, for a test on another thread.
class Listener final : public actor::Actor {
 public:
  Listener() { register_all(WireMessages{}); }
  template <class T>
  T wait_for(const std::function<bool(const T&)>& like = [](const T&) { return true; }) {
    std::unique_lock lock(mutex_);
    auto& got = std::get<std::vector<T>>(got_);
    EXPECT_TRUE(came_.wait_for(lock, std::chrono::seconds(20), [&] { return !got.empty() && like(got.back()); }));
    return got.back();
  }
  template <class T>
  std::vector<T> all(std::size_t count) {
    std::unique_lock lock(mutex_);
    auto& got = std::get<std::vector<T>>(got_);
    EXPECT_TRUE(came_.wait_for(lock, std::chrono::seconds(20), [&] { return got.size() == count; }));
    return got;
  }

 private:
  template <class... Messages>
  void register_all(MessageList<Messages...>) {
    (on(&Listener::template take<Messages>), ...);
  }
  template <class T>
  void take(T message) {
    std::lock_guard lock(mutex_);
    std::get<std::vector<T>>(got_).push_back(std::move(message));
    came_.notify_all();
  }
  template <class... Messages>
  static std::tuple<std::vector<Messages>...> storage(MessageList<Messages...>);

  std::mutex mutex_;
  std::condition_variable came_;
  decltype(storage(WireMessages{})) got_;
};

class LinkTest : public testing::Test {
 protected:
  LinkTest() {
    there_link_.expose("ledger", listener_.self());
    there_link_.before_an_end([this] { ++ends_; });
    here_.start();
    there_.start();
    EXPECT_TRUE(here_transport_->start().ok() && there_transport_->start().ok());
  }
  ~LinkTest() override {
    here_transport_->stop();
    there_transport_->stop();
  }

  comm::LocalHub hub_{2};
  std::unique_ptr<comm::Transport> here_transport_ = hub_.transport(Rank(0)), there_transport_ = hub_.transport(Rank(1));
  Link here_link_{*here_transport_}, there_link_{*there_transport_};
  std::atomic<int> ends_{0};
  actor::System here_, there_;
  Listener& listener_ = there_.add<Listener>("listener");
  actor::Ref remote_ = here_link_.remote(here_, Rank(1), "ledger"), nobody_ = here_link_.remote(here_, Rank(1), "nobody");
};

// Cases A01, A31: also what CAF's own serialization would spoil.
TEST_F(LinkTest, BringsEveryMessageAsItWas) {
  const double infinity = std::numeric_limits<double>::infinity();
  remote_.send(OpenStep{StepId(1L << 40), -5});
  EXPECT_EQ(listener_.wait_for<OpenStep>().step, StepId(1L << 40));
  EXPECT_EQ(listener_.wait_for<OpenStep>().cursor, -5);
  remote_.send(StepFed{StepId(2), 3, 0xfedcba9876543210, 4, {5, 0, 11}});
  EXPECT_THAT(listener_.wait_for<StepFed>().pulled, testing::ElementsAre(5, 0, 11));
  EXPECT_EQ(listener_.wait_for<StepFed>().sample_hash, 0xfedcba9876543210);
  EXPECT_EQ(listener_.wait_for<StepFed>().replica, 4);
  remote_.send(StepLossMeasured{StepId(3), {infinity, -0.0}, 2});
  EXPECT_EQ(listener_.wait_for<StepLossMeasured>().total.loss, infinity);
  EXPECT_TRUE(std::signbit(listener_.wait_for<StepLossMeasured>().total.tokens));
  remote_.send(NormMeasured{StepId(4), BlockIndex(9), std::nan("7"), 2});
  EXPECT_TRUE(std::isnan(listener_.wait_for<NormMeasured>().squares));
  EXPECT_EQ(listener_.wait_for<NormMeasured>().block, BlockIndex(9));
  EXPECT_EQ(listener_.wait_for<NormMeasured>().replica, 2);
  remote_.send(StepDecided{StepId(5), true, 6, 5e-324, -1.5});
  const auto decided = listener_.wait_for<StepDecided>();
  EXPECT_TRUE(decided.skip);
  EXPECT_EQ(decided.update, 6);
  EXPECT_EQ(decided.learning_rate, 5e-324);
  EXPECT_EQ(decided.gradient_scale, -1.5);
  remote_.send(ReplicaUpdated{StepId(6), Rank(7), 8});
  EXPECT_EQ(listener_.wait_for<ReplicaUpdated>().job, 8u);
  EXPECT_EQ(listener_.wait_for<ReplicaUpdated>().rank, Rank(7));
  remote_.send(EvaluationRequested{StepId(11), 12, 15});
  EXPECT_EQ(listener_.wait_for<EvaluationRequested>().step, StepId(11));
  EXPECT_EQ(listener_.wait_for<EvaluationRequested>().begin, 12);
  EXPECT_EQ(listener_.wait_for<EvaluationRequested>().end, 15);
  remote_.send(EvaluationMeasured{StepId(7), {{1, 2}, {-infinity, 4}}, 3});
  const auto evaluated = listener_.wait_for<EvaluationMeasured>();
  EXPECT_EQ(evaluated.step, StepId(7));
  ASSERT_EQ(evaluated.totals.size(), 2u);
  EXPECT_EQ(evaluated.totals[0].tokens, 2);
  EXPECT_EQ(evaluated.totals[1].loss, -infinity);
  EXPECT_EQ(evaluated.totals[1].tokens, 4);
  EXPECT_EQ(evaluated.replica, 3);
  remote_.send(JobEnded{absl::DataLossError("a torn file")});
  EXPECT_EQ(listener_.wait_for<JobEnded>().result, absl::DataLossError("a torn file"));
  remote_.send(SnapshotRequested{StepId(8)});
  EXPECT_EQ(listener_.wait_for<SnapshotRequested>().step, StepId(8));
  remote_.send(WriteShard{StepId(9)});
  EXPECT_EQ(listener_.wait_for<WriteShard>().step, StepId(9));
  remote_.send(ShardWritten{StepId(10), Rank(3), absl::ResourceExhaustedError("disk full")});
  EXPECT_EQ(listener_.wait_for<ShardWritten>().result, absl::ResourceExhaustedError("disk full"));
  EXPECT_EQ(listener_.wait_for<ShardWritten>().rank, Rank(3));
  remote_.send(MicroBatchAsked{.step = StepId(11), .next = 1, .finished = 2, .open = true, .pace_ns = 1L << 40, .replica = 3});
  const auto asked = listener_.wait_for<MicroBatchAsked>();
  EXPECT_EQ(asked.step, StepId(11));
  EXPECT_EQ(asked.next, 1);
  EXPECT_EQ(asked.finished, 2);
  EXPECT_TRUE(asked.open);
  EXPECT_EQ(asked.pace_ns, 1L << 40);
  EXPECT_EQ(asked.replica, 3);
  remote_.send(MicroBatchAssigned{StepId(12), -1, true});
  EXPECT_EQ(listener_.wait_for<MicroBatchAssigned>().step, StepId(12));
  EXPECT_EQ(listener_.wait_for<MicroBatchAssigned>().micro_batch, -1);
  EXPECT_TRUE(listener_.wait_for<MicroBatchAssigned>().last);
  remote_.send(StopRequested{std::string("nul \0 and \xff", 11)});
  EXPECT_EQ(listener_.wait_for<StopRequested>().reason, std::string("nul \0 and \xff", 11));
}

TEST_F(LinkTest, KeepsTheOrder) {
  for (int i = 0; i < 2000; ++i) remote_.send(StepFed{StepId(i), 0, 0, 0});
  const auto came = listener_.all<StepFed>(2000);
  for (int i = 0; i < 2000; ++i) ASSERT_EQ(came[static_cast<std::size_t>(i)].step, StepId(i));
}

TEST_F(LinkTest, SaysThatTheEndComesBeforeItsActorGetsIt) {
  remote_.send(StepFed{StepId(1), 0, 0, 0});
  (void)listener_.all<StepFed>(1);
  EXPECT_EQ(ends_, 0);
  remote_.send(StopRequested{"signal"});
  (void)listener_.wait_for<StopRequested>();
  EXPECT_EQ(ends_, 1);
  remote_.send(JobEnded{});
  (void)listener_.wait_for<JobEnded>();
  EXPECT_EQ(ends_, 2);
}

// At the limit of a frame's header and far beyond it; what follows a long one does not pass it.
TEST_F(LinkTest, BringsMessagesOfEverySizeInOrder) {
  constexpr std::size_t kAroundBytes = 14;  // type, name and the text's length
  std::vector<std::string> reasons;
  for (const std::size_t bytes : {std::size_t{0}, 4095 - kAroundBytes, 4096 - kAroundBytes, 4097 - kAroundBytes, std::size_t{4095}, std::size_t{4096},
                                  std::size_t{4097}, std::size_t{1} << 20, Link::kMessageBytesMost - 4}) {
    std::string reason(bytes, '\0');
    for (std::size_t i = 0; i < bytes; ++i) reason[i] = static_cast<char>(i * 7 + bytes);
    reasons.push_back(reason);
  }
  for (const auto& reason : reasons) remote_.send(StopRequested{reason});
  const auto stops = listener_.all<StopRequested>(reasons.size());
  for (std::size_t i = 0; i < stops.size(); ++i) EXPECT_TRUE(stops[i].reason == reasons[i]) << reasons[i].size() << " bytes";
  for (int i = 0; i < 300; ++i) remote_.send(StepFed{StepId(i), 0, 0, 0, std::vector<std::int32_t>(static_cast<std::size_t>(i % 3 ? 0 : 1000 + i), i)});
  const auto came = listener_.all<StepFed>(300);
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(came[static_cast<std::size_t>(i)].step, StepId(i));
    ASSERT_THAT(came[static_cast<std::size_t>(i)].pulled, testing::Each(i));
    ASSERT_EQ(came[static_cast<std::size_t>(i)].pulled.size(), i % 3 ? 0u : 1000u + static_cast<unsigned>(i));
  }
}

TEST_F(LinkTest, SaysWhichMessageIsTooLong) {
  remote_.send(StopRequested{std::string(Link::kMessageBytesMost - 3, 'x')});
  const Status failed = here_.wait();
  EXPECT_TRUE(absl::IsResourceExhausted(failed)) << failed;
  EXPECT_THAT(std::string(failed.message()), testing::AllOf(testing::HasSubstr("ledger of rank 1 has 16777217 bytes"),
                                                            testing::HasSubstr("at most 16777216")));
}

TEST_F(LinkTest, CutsTheTextOfAStatus) {
  remote_.send(JobEnded{absl::DataLossError(std::string(100'000, 'x'))});
  const Status came = listener_.wait_for<JobEnded>().result;
  EXPECT_TRUE(absl::IsDataLoss(came));
  EXPECT_EQ(came.message(), std::string(kStatusTextBytesMost - 4, 'x') + " ...");
  const std::string longest(kStatusTextBytesMost, 'y');
  remote_.send(ShardWritten{StepId(1), Rank(0), absl::UnknownError(longest)});
  EXPECT_EQ(listener_.wait_for<ShardWritten>().result.message(), longest);
}

TEST_F(LinkTest, CountsWhatIsForNobody) {
  nobody_.send(OpenStep{StepId(1), 0});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (there_link_.refused() == 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(there_link_.refused(), 1);
}

TEST_F(LinkTest, RefusesBytesThatAreNoMessage) {
  std::mt19937 random(5);
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> frame(random() % 60);
    for (auto& byte : frame) byte = static_cast<std::byte>(random());
    if (i % 2 && frame.size() > 12) {  // right name, wrong rest
      const std::uint16_t prefix[2] = {static_cast<std::uint16_t>(random() % 12), 6};
      std::memcpy(frame.data(), prefix, 4);
      std::memcpy(frame.data() + 4, "ledger", 6);
    }
    here_transport_->send({.to = Rank(1), .channel = comm::Channel::kActors, .header = frame});
  }
  remote_.send(JobEnded{});
  listener_.wait_for<JobEnded>();
  EXPECT_GT(there_link_.refused(), 10'000);
}

// Each of them is counted, and nothing of it comes through.
TEST_F(LinkTest, AMessageCutShortIsRefused) {
  comm::LocalHub hub(2);
  const auto here = hub.transport(Rank(0)), there = hub.transport(Rank(1));
  std::vector<std::byte> whole;
  there->handle(comm::Channel::kActors, [&](const comm::Arrival& arrival) { whole.assign(arrival.header().begin(), arrival.header().end()); });
  Link link(*here);
  actor::System system;
  const auto remote = link.remote(system, Rank(1), "ledger");
  system.start();
  ASSERT_TRUE(here->start().ok() && there->start().ok());
  remote.send(StepFed{StepId(3), 1, 2, 3});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (there->counters().frames_received == 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  there->stop();
  here->stop();
  ASSERT_GT(whole.size(), 10u);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    here_transport_->send({.to = Rank(1), .channel = comm::Channel::kActors, .header = std::span(whole).first(length)});
  }
  here_transport_->send({.to = Rank(1), .channel = comm::Channel::kActors, .header = whole});
  EXPECT_EQ(listener_.all<StepFed>(1).front().step, StepId(3));
  EXPECT_EQ(there_link_.refused(), static_cast<std::int64_t>(whole.size()));
}

// Long ones: the right beginning with a wrong rest, fields twice, more than may come. None of it is kept, and what follows is heard.
TEST_F(LinkTest, RefusesBulksThatAreNoMessage) {
  std::mt19937 random(6);
  std::vector<std::byte> header(10);
  std::memcpy(header.data() + 4, "ledger", 6);
  header[2] = std::byte{6};
  std::vector<std::byte> bulk(20'000), huge(Link::kMessageBytesMost + 1);
  int sent = 0;
  for (; sent < 3'000; ++sent) {
    for (int i = 0; i < 40; ++i) bulk[static_cast<std::size_t>(i)] = static_cast<std::byte>(random());
    header[0] = static_cast<std::byte>(random() % 20);
    here_transport_->send({.to = Rank(1), .channel = comm::Channel::kActors, .header = header, .bulk = std::span(bulk).first(1 + random() % 20'000)});
  }
  here_transport_->send({.to = Rank(1), .channel = comm::Channel::kActors, .header = header, .bulk = huge});
  header[0] = std::byte{8};  // StopRequested
  std::vector<std::byte> twice = header;
  twice.resize(14);
  here_transport_->send({.to = Rank(1), .channel = comm::Channel::kActors, .header = twice, .bulk = std::span(bulk).first(4)});
  remote_.send(JobEnded{absl::AbortedError("really")});
  (void)listener_.wait_for<JobEnded>([](const JobEnded& came) { return came.result == absl::AbortedError("really"); });
  EXPECT_GT(there_link_.refused(), sent / 2);
}

TEST(Fields, RefuseABitMoreOrLess) {
  JobEnded message{absl::AbortedError("because")};
  std::vector<std::byte> bytes;
  FieldWriter write(bytes);
  fields(write, message);
  const auto good = [](std::span<const std::byte> from) {
    JobEnded read;
    FieldReader reader(from);
    fields(reader, read);
    return reader.good();
  };
  EXPECT_TRUE(good(bytes));
  for (std::size_t length = 0; length < bytes.size(); ++length) EXPECT_FALSE(good(std::span(bytes).first(length)));
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(good(bytes));
}

}  // namespace
}  // namespace troupe::test
