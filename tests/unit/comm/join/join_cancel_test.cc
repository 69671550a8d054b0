// A join that is cancelled: it ends at once wherever it waits, and whoever was met hears why.
#include <poll.h>

#include <future>
#include <thread>

#include "comm/join/join.h"
#include "comm/join/secret.h"
#include "tests/unit/comm/join/stranger.h"

namespace troupe::comm {
namespace {

using namespace std::chrono_literals;

constexpr char kWhy[] = "somebody closed the door";

StoreClient::Options as_rank(int rank, int world, int port) {
  return {.hosts = "127.0.0.1", .port = port, .secret = "s", .rank = Rank{rank}, .world = world, .build = program_build()};
}

int free_port() {
  const auto listener = listen_at(0, true);
  const int port = port_of(*listener);
  close(*listener);
  return port;
}

// A rank that joins on a thread of its own, and can be cancelled.
class Joining {
 public:
  explicit Joining(const Place& place)
      : result_(std::async(std::launch::async, [this, place] { return join(place, "a", after(kPatience), &cancel_).status(); })) {}
  ~Joining() { cancel_.request("the test is over"); }
  void expect_cancelled() {
    cancel_.request(kWhy);
    const Deadline soon = after(kPatience / 4);  // and not when its patience ends
    ASSERT_EQ(result_.wait_until(soon), std::future_status::ready);
    EXPECT_EQ(result_.get(), absl::CancelledError(kWhy));
  }

 private:
  Cancel cancel_;
  std::future<Status> result_;
};

TEST(JoinCancel, TheOthersHearWhyARankThatWaitedForThemHasLeft) {
  const auto server = *StoreServer::start({.secret = "s", .world = 3});
  Joining one({.rank = Rank{1}, .world = 3, .store_host = "127.0.0.1", .store_port = server->port(), .secret = "s"});
  const auto two = *StoreClient::connect(as_rank(2, 3, server->port()), after(kPatience));
  ASSERT_TRUE(wait_until([&] { return server->meeting().waiting == std::vector{Rank{1}}; }));
  one.expect_cancelled();
  const Status heard = two->get("nothing", after(kPatience)).status();
  EXPECT_EQ(heard, absl::AbortedError(absl::StrCat("rank 1 ended the job: ", kWhy)));
  EXPECT_EQ(two->cause()->rank, Rank{1});
  EXPECT_FALSE(two->cause()->lost);
}

TEST(JoinCancel, TheOthersHearItFromARankThatHasRunTheStore) {
  const int port = free_port();
  Joining zero({.world = 3, .store_host = "127.0.0.1", .store_port = port, .secret = "s", .hosts_store = true});
  const auto one = *StoreClient::connect(as_rank(1, 3, port), after(kPatience));
  // It is a member before it waits: an exchange that is given up names who is missing.
  ASSERT_TRUE(wait_until([&] {
    return one->exchange("b", after(1ms)).status().message().find("rank 2 of 3") != std::string::npos;
  }));
  zero.expect_cancelled();
  EXPECT_EQ(one->get("nothing", after(kPatience)).status(), absl::AbortedError(absl::StrCat("rank 0 ended the job: ", kWhy)));
  const auto again = listen_at(port, true);
  ASSERT_TRUE(again.ok()) << "it is still there";
  close(*again);
}

TEST(JoinCancel, WhereNobodyListens) {
  Joining({.rank = Rank{1}, .world = 2, .store_host = "127.0.0.1", .store_port = free_port(), .secret = "s"}).expect_cancelled();
}

TEST(JoinCancel, WhereSomebodyListensAndIsSilent) {
  const auto listener = listen_at(0, true);
  ASSERT_TRUE(listener.ok());
  Joining one({.rank = Rank{1}, .world = 2, .store_host = "127.0.0.1", .store_port = port_of(*listener), .secret = "s"});
  ASSERT_TRUE(wait_for(*listener, POLLIN, after(kPatience)));
  one.expect_cancelled();
  close(*listener);
}

TEST(JoinCancel, WhereARelayHasNotFoundTheStore) {
  const std::string name = absl::StrCat("troupe-test-", getpid(), "-cancel");
  Joining two({.rank = Rank{2}, .world = 4, .store_host = "127.0.0.1", .store_port = free_port(), .secret = "s", .relay = name, .hosts_relay = true});
  ASSERT_TRUE(wait_until([&] {
    const auto fd = connect_to("@" + name, 0, after(kPatience));
    if (fd.ok()) close(*fd);
    return fd.ok();
  }));
  two.expect_cancelled();
  const auto again = listen_at_name(name);
  ASSERT_TRUE(again.ok()) << "the relay is still there";
  close(*again);
}

}  // namespace
}  // namespace troupe::comm
