// Transports over UCX within one process: every promise that needs no process to die.
#include "comm/ucx/ucx_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/first_cause.h"

namespace troupe::comm {
namespace {

using std::chrono::seconds;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }
std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::byte> pattern(std::size_t count, unsigned seed) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<std::byte>((i * 131 + seed * 29 + (i >> 9)) & 0xff);
  return bytes;
}

// What the threads of a test tell each other.
class Board {
 public:
  template <class Change>
  void change(Change change) {
    {
      std::lock_guard lock(mutex_);
      change();
    }
    changed_.notify_all();
  }
  template <class Condition>
  [[nodiscard]] bool wait(Condition condition, std::chrono::nanoseconds limit = seconds(20)) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, condition);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

class Job {
 public:
  explicit Job(int world, UcxOptions options = {}) {
    for (int i = 0; i < world; ++i) {
      options.rank = Rank{i};
      options.world = world;
      options.job = 7;
      auto opened = UcxTransport::open(options);
      EXPECT_TRUE(opened.ok()) << opened.status();
      transports_.push_back(std::move(*opened));
      addresses_.push_back(transports_.back()->address());
    }
  }
  void start() {
    for (auto& transport : transports_) {
      transport->set_peers(addresses_);
      ASSERT_TRUE(transport->start().ok());
    }
  }
  UcxTransport& operator[](int rank) { return *transports_[static_cast<std::size_t>(rank)]; }
  const std::vector<std::string>& addresses() const { return addresses_; }

 private:
  std::vector<std::unique_ptr<UcxTransport>> transports_;
  std::vector<std::string> addresses_;
};

// Around the limits: inline, copied, eager and offered, one piece and several.
constexpr std::array kSizes{std::size_t{1},         std::size_t{92},
                            std::size_t{93},        std::size_t{8192},
                            std::size_t{8193},      std::size_t{8256},
                            std::size_t{65536},     std::size_t{1 << 20},
                            std::size_t{2 << 20},   std::size_t{(2 << 20) + 1},
                            std::size_t{5'000'011}, std::size_t{16 << 20}};

TEST(UcxTransport, CarriesFramesOnEveryChannelAndLane) {
  Board board;
  std::vector<std::string> came;
  Job job(2);
  for (const Channel channel : {Channel::kActors, Channel::kEdges, Channel::kCollectives, Channel::kTest}) {
    job[1].handle(channel, [&, channel](Arrival arrival) {
      EXPECT_EQ(arrival.from(), Rank{0});
      EXPECT_EQ(arrival.bulk_bytes(), 0);
      EXPECT_TRUE(job[1].on_progress_thread());
      board.change(
          [&] { came.push_back(text_of(arrival.header()) + std::to_string(static_cast<int>(channel))); });
    });
  }
  job.start();
  for (const Lane lane : {Lane::kControl, Lane::kBulk}) {
    for (const Channel channel : {Channel::kActors, Channel::kEdges, Channel::kCollectives, Channel::kTest}) {
      job[0].send({.to = Rank{1}, .channel = channel, .lane = lane, .header = bytes_of("to ")});
    }
  }
  ASSERT_TRUE(board.wait([&] { return came.size() == 8; }));
  for (const char* text : {"to 1", "to 2", "to 3", "to 15"})
    EXPECT_EQ(std::count(came.begin(), came.end(), text), 2) << text;
}

// fetch_later: the arrivals are kept until all have come, then fetched in reverse.
void expect_bulks_arrive(Rank from, Rank to, Lane lane, bool fetch_later) {
  Board board;
  std::vector<std::vector<std::byte>> sent_bulks, into;
  std::vector<Arrival> kept;
  std::size_t fetched = 0, sent = 0;
  for (const std::size_t size : kSizes) {
    sent_bulks.push_back(pattern(size, static_cast<unsigned>(sent_bulks.size())));
    into.emplace_back(size);
  }
  Job job(2);
  UcxTransport& receiver = job[to.value];
  auto fetch = [&](Arrival& arrival, std::size_t i) {
    arrival.fetch(into[i].data(), [&](const Status& status) {
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_TRUE(receiver.on_progress_thread());
      board.change([&] { ++fetched; });
    });
  };
  std::size_t arrived = 0;
  receiver.handle(Channel::kTest, [&](Arrival arrival) {
    const std::size_t i = arrived++;
    EXPECT_EQ(text_of(arrival.header()), std::to_string(i));
    EXPECT_EQ(arrival.bulk_bytes(), static_cast<std::int64_t>(kSizes[i]));
    if (!fetch_later) return fetch(arrival, i);
    kept.push_back(std::move(arrival));
    if (kept.size() == kSizes.size()) {
      receiver.post([&] {
        for (std::size_t k = kept.size(); k-- > 0;) fetch(kept[k], k);
      });
    }
  });
  job.start();
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    job[from.value].send({.to = to,
                          .lane = lane,
                          .header = bytes_of(std::to_string(i)),
                          .bulk = sent_bulks[i],
                          .sent = [&](const Status& status) {
                            EXPECT_TRUE(status.ok()) << status;
                            board.change([&] { ++sent; });
                          }});
  }
  ASSERT_TRUE(board.wait([&] { return fetched == kSizes.size() && sent == kSizes.size(); }))
      << fetched << " fetched, " << sent << " sent";
  for (std::size_t i = 0; i < kSizes.size(); ++i)
    EXPECT_TRUE(into[i] == sent_bulks[i]) << "size " << kSizes[i];
  const auto bytes = static_cast<std::int64_t>(std::accumulate(kSizes.begin(), kSizes.end(), std::size_t{0}));
  EXPECT_EQ(job[from.value].counters().bulk_bytes_sent, bytes);
  EXPECT_EQ(receiver.counters().bulk_bytes_received, bytes);
  EXPECT_EQ(job[from.value].counters().frames_sent, static_cast<std::int64_t>(kSizes.size()));
  EXPECT_EQ(receiver.counters().frames_received, static_cast<std::int64_t>(kSizes.size()));
  EXPECT_EQ(receiver.counters().refused, 0);
  job[0].stop();
  job[1].stop();
}

TEST(UcxTransport, FetchesBulksOfEverySizeAtOnce) { expect_bulks_arrive(Rank{0}, Rank{1}, Lane::kBulk, false); }
TEST(UcxTransport, FetchesBulksOfEverySizeLater) { expect_bulks_arrive(Rank{0}, Rank{1}, Lane::kBulk, true); }
TEST(UcxTransport, CarriesBulksOnTheControlLaneToo) { expect_bulks_arrive(Rank{1}, Rank{0}, Lane::kControl, true); }
TEST(UcxTransport, CarriesBulksToItself) {
  expect_bulks_arrive(Rank{1}, Rank{1}, Lane::kBulk, false);
  expect_bulks_arrive(Rank{0}, Rank{0}, Lane::kBulk, true);
}

TEST(UcxTransport, KeepsTheOrderOfEveryStream) {
  Board board;
  constexpr int kFrames = 2000;
  // [from][lane] next number that must come
  std::array<std::array<int, 2>, 3> next{};
  int came = 0;
  std::vector<std::byte> sink(1 << 20);
  Job job(3);
  job[2].handle(Channel::kTest, [&](Arrival arrival) {
    const std::string text = text_of(arrival.header());
    const auto from = static_cast<std::size_t>(arrival.from().value);
    const std::size_t lane = text[0] == 'b';
    EXPECT_EQ(std::atoi(text.c_str() + 1), next[from][lane]);
    ++next[from][lane];
    auto take = [&](const Status& status) {
      EXPECT_TRUE(status.ok()) << status;
      board.change([&] { ++came; });
    };
    if (arrival.bulk_bytes() == 0) return take(ok());
    arrival.fetch(sink.data(), take);
  });
  job.start();
  const auto bulk = pattern(1 << 20, 1);
  std::vector<std::thread> senders;
  for (int from = 0; from < 2; ++from) {
    senders.emplace_back([&, from] {
      std::mt19937 random(static_cast<unsigned>(from));
      std::array<int, 2> number{};
      for (int i = 0; i < kFrames; ++i) {
        const bool on_bulk = random() % 2 == 0;
        std::string header = (on_bulk ? "b" : "c") + std::to_string(number[on_bulk]++);
        header.resize(random() % 8 == 0 ? 4000 : 8, '\0');
        // small ones, eager ones in several pieces, offered ones
        const std::size_t size = on_bulk ? std::array<std::size_t, 4>{0, 60, 8000, 1 << 16}[random() % 4] : 0;
        job[from].send({.to = Rank{2},
                        .lane = on_bulk ? Lane::kBulk : Lane::kControl,
                        .header = bytes_of(header),
                        .bulk = std::span(bulk).first(size)});
      }
    });
  }
  for (auto& sender : senders) sender.join();
  EXPECT_TRUE(board.wait([&] { return came == 2 * kFrames; })) << came;
  for (int i = 0; i < 3; ++i) job[i].stop();
}

// With a spin of 0 the progress threads sleep between any two frames, and senders post in their place, or queue, as it comes.
TEST(UcxTransport, KeepsTheOrderOfEverySenderWhileItSleepsAndWakes) {
  Board board;
  constexpr int kSenders = 3, kFrames = 3000;
  std::array<int, kSenders> next{};
  int came = 0, completed = 0;
  Job job(2, {.spin = {}});
  job[1].handle(Channel::kTest, [&](Arrival arrival) {
    const std::string text = text_of(arrival.header());
    EXPECT_EQ(std::atoi(text.c_str() + 1), next[static_cast<std::size_t>(text[0] - 'a')]++);
    board.change([&] { ++came; });
  });
  job.start();
  std::vector<std::thread> senders;
  for (int sender = 0; sender < kSenders; ++sender) {
    senders.emplace_back([&, sender] {
      std::mt19937 random(static_cast<unsigned>(sender));
      for (int i = 0; i < kFrames; ++i) {
        Completion sent;
        if (i % 3 == 0) sent = [&](const Status& status) {
          EXPECT_TRUE(status.ok()) << status;
          EXPECT_TRUE(job[0].on_progress_thread());
          board.change([&] { ++completed; });
        };
        job[0].send({.to = Rank{1}, .header = bytes_of(std::string(1, static_cast<char>('a' + sender)) + std::to_string(i) + '\0'), .sent = std::move(sent)});
        if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
      }
    });
  }
  for (auto& sender : senders) sender.join();
  EXPECT_TRUE(board.wait([&] { return came == kSenders * kFrames && completed == kSenders * kFrames / 3; })) << came << " " << completed;
  for (int i = 0; i < 2; ++i) job[i].stop();
}

TEST(UcxTransport, TellsTheSenderThatABulkWasDropped) {
  Board board;
  std::vector<Status> results(2);
  std::vector<Arrival> kept;
  int sent = 0;
  Job job(2);
  job[1].handle(Channel::kTest, [&](Arrival arrival) {
    if (text_of(arrival.header()) == "later") board.change([&] { kept.push_back(std::move(arrival)); });
  });
  job.start();
  const auto bulk = pattern(5'000'000, 3);
  for (const char* when : {"now", "later"}) {
    job[0].send({.to = Rank{1},
                 .lane = Lane::kBulk,
                 .header = bytes_of(when),
                 .bulk = bulk,
                 .sent = [&, i = sent](const Status& status) {
                   board.change([&] { results[static_cast<std::size_t>(i)] = status; });
                 }});
    ++sent;
  }
  EXPECT_TRUE(board.wait([&] { return absl::IsCancelled(results[0]) && kept.size() == 1; })) << results[0];
  board.change([&] { kept.clear(); });  // on this thread: an arrival may die anywhere
  EXPECT_TRUE(board.wait([&] { return absl::IsCancelled(results[1]); })) << results[1];
  EXPECT_EQ(job[1].counters().bulk_bytes_received, 0);
}

TEST(UcxTransport, SmallDroppedBulksCountAsSent) {
  Board board;
  std::optional<Status> result;
  Job job(2);
  job[1].handle(Channel::kTest, [](Arrival) {});
  job.start();
  const auto bulk = pattern(UcxTransport::kEagerBytesMost, 3);
  job[0].send({.to = Rank{1}, .bulk = bulk, .sent = [&](const Status& status) {
                 board.change([&] { result = status; });
               }});
  ASSERT_TRUE(board.wait([&] { return result.has_value(); }));
  EXPECT_TRUE(result->ok()) << *result;
}

TEST(UcxTransport, RefusesFramesOfChannelsThatNobodyHandles) {
  Board board;
  std::optional<Status> result;
  Job job(2);
  job.start();
  const auto bulk = pattern(100'000, 3);
  job[0].send({.to = Rank{1}, .channel = Channel::kEdges, .bulk = bulk, .sent = [&](const Status& status) {
                 board.change([&] { result = status; });
               }});
  ASSERT_TRUE(board.wait([&] { return result.has_value(); }));
  EXPECT_TRUE(absl::IsCancelled(*result)) << *result;
  EXPECT_EQ(job[1].counters().refused, 1);
  EXPECT_EQ(job[1].counters().frames_received, 0);
}

// Rank 0 of another job, and of the same job before its restart (another rank 0 met the same rank 1), knows the address: nothing of it is
// believed.
TEST(UcxTransport, RefusesStrangers) {
  Board board;
  std::vector<std::string> came;
  Job job(2);
  job[1].handle(Channel::kTest,
                [&](Arrival arrival) { board.change([&] { came.push_back(text_of(arrival.header())); }); });
  job.start();
  const auto bulk = pattern(100'000, 3);
  for (const std::uint64_t number : {8u, 7u}) {
    auto stranger = UcxTransport::open({.world = 2, .job = number});
    ASSERT_TRUE(stranger.ok());
    auto addresses = job.addresses();
    if (number == 7) addresses[0] = (*stranger)->address();
    (*stranger)->set_peers(addresses);
    ASSERT_TRUE((*stranger)->start().ok());
    std::optional<Status> result;
    (*stranger)->send({.to = Rank{1}, .header = bytes_of("stranger")});
    (*stranger)->send({.to = Rank{1}, .bulk = bulk, .sent = [&](const Status& status) {
                         board.change([&] { result = status; });
                       }});
    ASSERT_TRUE(board.wait([&] { return result.has_value(); }));
    EXPECT_FALSE(result->ok());
    (*stranger)->stop();
  }
  EXPECT_GE(job[1].counters().refused, 4);
  job[0].send({.to = Rank{1}, .header = bytes_of("friend")});
  ASSERT_TRUE(board.wait([&] { return !came.empty(); }));
  EXPECT_EQ(came, std::vector<std::string>{"friend"});
}

TEST(UcxTransport, HasRoomForTheLongestHeader) {
  Board board;
  std::string header(kHeaderBytesMost, 'h'), came;
  header[4095] = 'e';
  std::vector<std::byte> into(70'000);
  const auto bulk = pattern(into.size(), 5);
  bool fetched = false;
  Job job(2);
  job[1].handle(Channel::kTest, [&](Arrival arrival) {
    came = text_of(arrival.header());
    arrival.fetch(into.data(), [&](const Status& status) {
      EXPECT_TRUE(status.ok());
      board.change([&] { fetched = true; });
    });
  });
  job.start();
  job[0].send({.to = Rank{1}, .lane = Lane::kBulk, .header = bytes_of(header), .bulk = bulk});
  ASSERT_TRUE(board.wait([&] { return fetched; }));
  EXPECT_EQ(came, header);
  EXPECT_TRUE(into == bulk);
}

TEST(UcxTransportDeath, RefusesALongerHeader) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        Job job(1);
        const std::string header(kHeaderBytesMost + 1, 'h');
        job[0].send({.to = Rank{0}, .header = bytes_of(header)});
      },
      "4096 are allowed");
}

TEST(UcxTransport, RunsPostedFunctionsInOrderWithSends) {
  Board board;
  std::vector<std::string> came;
  Job job(2);
  job[1].handle(Channel::kTest,
                [&](Arrival arrival) { board.change([&] { came.push_back(text_of(arrival.header())); }); });
  job.start();
  for (int i = 0; i < 100; ++i) {
    if (i % 2 == 0) {
      job[0].send({.to = Rank{1}, .header = bytes_of(std::to_string(i))});
    } else {
      job[0].post([&, i] {
        EXPECT_TRUE(job[0].on_progress_thread());
        job[0].send({.to = Rank{1}, .header = bytes_of(std::to_string(i))});
      });
    }
  }
  ASSERT_TRUE(board.wait([&] { return came.size() == 100; }));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(came[static_cast<std::size_t>(i)], std::to_string(i));
  EXPECT_FALSE(job[0].on_progress_thread());
}

TEST(UcxTransport, HandlersMaySend) {
  Board board;
  int rounds = 0;
  Job job(2);
  for (int rank = 0; rank < 2; ++rank) {
    job[rank].handle(Channel::kTest, [&, rank](Arrival arrival) {
      if (rank == 0) board.change([&] { ++rounds; });
      if (rank == 1 || rounds < 1000) job[rank].send({.to = arrival.from(), .header = arrival.header()});
    });
  }
  job.start();
  job[0].send({.to = Rank{1}, .header = bytes_of("ball")});
  EXPECT_TRUE(board.wait([&] { return rounds == 1000; })) << rounds;
}

TEST(UcxTransport, StopCompletesEverySendOnce) {
  Board board;
  constexpr int kSends = 50;
  std::vector<int> completed(kSends);
  std::vector<Arrival> kept;
  Job job(2);
  for (int rank = 0; rank < 2; ++rank) {
    job[rank].handle(Channel::kTest,
                     [&](Arrival arrival) { board.change([&] { kept.push_back(std::move(arrival)); }); });
  }
  job.start();
  const auto bulk = pattern(1 << 20, 3);
  for (int i = 0; i < kSends; ++i) {
    job[0].send({.to = Rank{i % 2}, .lane = Lane::kBulk, .bulk = bulk, .sent = [&, i](const Status& status) {
                   EXPECT_FALSE(status.ok());
                   ++completed[static_cast<std::size_t>(i)];
                   job[0].send({.to = Rank{1}, .sent = [](const Status& late) {
                                  EXPECT_TRUE(absl::IsUnavailable(late)) << late;
                                }});
                 }});
  }
  ASSERT_TRUE(board.wait([&] { return kept.size() == kSends; }));
  job[0].stop();
  for (const int count : completed) EXPECT_EQ(count, 1);
  job[0].send({.to = Rank{1}, .sent = [](const Status&) { FAIL() << "nothing is called after the stop"; }});
  job[1].stop();
  kept.clear();  // after both have stopped
}

TEST(UcxTransport, DeliversWhatWasSentBeforeTheStop) {
  Board board;
  int came = 0;
  Status cause;
  Job job(2);
  job[1].handle(Channel::kTest, [&](Arrival) { board.change([&] { ++came; }); });
  job[1].on_peer_down([&](Rank rank, const Status& why) {
    EXPECT_EQ(rank, Rank{0});
    board.change([&] { cause = why; });
  });
  job.start();
  for (int i = 0; i < 1000; ++i)
    job[0].send({.to = Rank{1}, .lane = i % 2 == 0 ? Lane::kBulk : Lane::kControl, .header = bytes_of("x")});
  job[0].stop();
  EXPECT_TRUE(board.wait([&] { return !cause.ok(); }));
  EXPECT_EQ(came, 1000) << cause;
  EXPECT_TRUE(absl::IsUnavailable(cause)) << cause;
  EXPECT_THAT(std::string(cause.message()), testing::HasSubstr("rank 0"));
}

// Rank 1 fails, rank 0 because of it, rank 2 hears of rank 0 alone: all blame rank 1.
TEST(UcxTransport, TheFirstCauseIsHeardThroughOthers) {
  Board board;
  Status at_zero, at_two;
  int met = 0;  // a rank that stops tells those it has met
  Job job(3);
  job[0].on_peer_down([&](Rank, const Status& why) { board.change([&] { at_zero = why; }); });
  job[2].on_peer_down([&](Rank, const Status& why) { board.change([&] { at_two = why; }); });
  for (const int rank : {1, 2}) job[rank].handle(Channel::kTest, [&](Arrival) { board.change([&] { ++met; }); });
  job.start();
  job[0].send({.to = Rank{1}, .header = bytes_of("x")});
  job[0].send({.to = Rank{2}, .header = bytes_of("x")});
  ASSERT_TRUE(board.wait([&] { return met == 2; }));
  const std::string torn = "the checkpoint is torn";
  job[1].stop(absl::DataLossError(torn));
  ASSERT_TRUE(board.wait([&] { return !at_zero.ok(); }));
  EXPECT_EQ(at_zero.message(), "rank 1 is down: " + torn);
  job[0].stop(reworded(at_zero, "an actor failed: " + std::string(at_zero.message())));
  ASSERT_TRUE(board.wait([&] { return !at_two.ok(); }));
  EXPECT_EQ(at_two.message(), "rank 1 is down: " + torn + " (heard from rank 0)");
  ASSERT_TRUE(first_cause(at_two));
  EXPECT_EQ(first_cause(at_two)->rank, Rank{1});
  EXPECT_EQ(first_cause(at_two)->text, "rank 1 is down: " + torn);
}

TEST(UcxTransport, FetchesAndSendsFailAfterThePeerHasStopped) {
  Board board;
  std::vector<Arrival> kept;
  bool down = false;
  Job job(2);
  job[1].handle(Channel::kTest,
                [&](Arrival arrival) { board.change([&] { kept.push_back(std::move(arrival)); }); });
  job[1].on_peer_down([&](Rank, const Status&) { board.change([&] { down = true; }); });
  job.start();
  const auto bulk = pattern(1 << 20, 3);
  job[0].send({.to = Rank{1}, .lane = Lane::kBulk, .bulk = bulk});
  ASSERT_TRUE(board.wait([&] { return kept.size() == 1; }));
  job[0].stop();
  ASSERT_TRUE(board.wait([&] { return down; }));
  std::vector<Status> results;
  std::vector<std::byte> into(bulk.size());
  job[1].post([&] {
    auto note = [&](const Status& status) { board.change([&] { results.push_back(status); }); };
    kept[0].fetch(into.data(), note);
    job[1].send({.to = Rank{0}, .bulk = bulk, .sent = note});
  });
  ASSERT_TRUE(board.wait([&] { return results.size() == 2; }));
  for (const Status& status : results) EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

// A bulk that is offered to one who is stopping is cut short by UCX before his bye has come; its completion waits for that.
TEST(UcxTransport, ABulkThatAStopCutsShortHasTheReasonOfTheStop) {
  const auto bulk = pattern(1 << 20, 3);
  for (int round = 0; round < 20; ++round) {
    Board board;
    int came = 0;
    std::optional<Status> first;
    std::atomic<bool> failed = false;
    std::vector<std::byte> into(bulk.size());
    Job job(2);
    job[1].handle(Channel::kTest, [&](Arrival arrival) {
      arrival.fetch(into.data(), [](const Status&) {});
      board.change([&] { ++came; });
    });
    job.start();
    std::thread sender([&] {
      while (!failed) {
        job[0].send({.to = Rank{1}, .lane = Lane::kBulk, .bulk = bulk, .sent = [&](const Status& status) {
                       if (status.ok() || failed.exchange(true)) return;
                       board.change([&] { first = status; });
                     }});
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    });
    EXPECT_TRUE(board.wait([&] { return came >= 10; }));
    job[1].stop(absl::InternalError("something broke"));
    EXPECT_TRUE(board.wait([&] { return first.has_value(); }));
    sender.join();
    ASSERT_THAT(std::string(first.value_or(ok()).message()), testing::HasSubstr("something broke"));
  }
}

TEST(UcxTransport, FirstFramesMayComeBeforeTheReceiverStarts) {
  Board board;
  int came = 0;
  Job job(2);
  job[1].handle(Channel::kTest, [&](Arrival) { board.change([&] { ++came; }); });
  job[0].set_peers(job.addresses());
  ASSERT_TRUE(job[0].start().ok());
  Board posted;
  bool done = false;
  for (int i = 0; i < 10; ++i) job[0].send({.to = Rank{1}, .header = bytes_of("early")});
  job[0].post([&] { posted.change([&] { done = true; }); });
  ASSERT_TRUE(posted.wait([&] { return done; }));
  job[1].set_peers(job.addresses());
  ASSERT_TRUE(job[1].start().ok());
  EXPECT_TRUE(board.wait([&] { return came == 10; })) << came;
}

TEST(UcxTransport, StopsWithoutHavingBeenStarted) {
  Job job(2);
  std::optional<Status> sent;
  job[0].send({.to = Rank{1}, .header = bytes_of("nobody hears"), .sent = [&](const Status& status) { sent = status; }});
  job[0].stop();
  ASSERT_TRUE(sent);
  EXPECT_TRUE(absl::IsUnavailable(*sent)) << *sent;
}

TEST(UcxTransport, WantsItsPeersBeforeItStarts) {
  Job job(2);
  EXPECT_TRUE(absl::IsFailedPrecondition(job[0].start()));
}

}  // namespace
}  // namespace troupe::comm
