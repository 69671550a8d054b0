// The server behind every door, over real sockets.
#include <memory>
#include <optional>
#include <thread>

#include "actors/inspect/http.h"
#include "tests/proc/inspect/inspect_fixture.h"
#include "tests/proc/inspect/raw_http.h"

namespace troupe::test {
namespace {

using namespace std::chrono_literals;
using actors::HttpAnswer;
using actors::HttpPlace;
using actors::HttpRequest;
using actors::HttpServer;
using testing::HasSubstr;

constexpr auto kLong = 20s;

constexpr const char* kAskForStream = "GET /stream HTTP/1.1\r\nHost: here\r\n\r\n";

std::unique_ptr<HttpServer> counting_server() {
  auto server = HttpServer::listen({.host = "127.0.0.1"}, [](const HttpRequest& request) -> StatusOr<HttpAnswer> {
    if (request.path != "/stream") return HttpAnswer{.body = request.method + " " + request.token + " " + request.host, .type = "text/plain"};
    return HttpAnswer{.type = "text/event-stream", .next = [count = 0]() mutable -> std::optional<std::string> {
      std::this_thread::sleep_for(1ms);
      return "data: " + std::to_string(count++) + "\n\n";
    }};
  });
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

TEST(Http, HandsOverWhatWasAsked) {
  const auto server = counting_server();
  const HttpPlace place{.host = "127.0.0.1", .port = server->port(), .token = "secret"};
  const std::string host = "127.0.0.1:" + std::to_string(server->port());
  EXPECT_EQ(actors::http_get(place, "/x", kLong).value_or("no answer"), "GET secret " + host);
  EXPECT_EQ(actors::http_post(place, "/x", kLong).value_or("no answer"), "POST secret " + host);
}

TEST(Http, APortThatAnotherHasIsAnError) {
  const auto server = counting_server();
  const auto second = HttpServer::listen({.host = "127.0.0.1", .port = server->port()}, [](const HttpRequest&) -> StatusOr<HttpAnswer> { return HttpAnswer{}; });
  EXPECT_TRUE(absl::IsUnavailable(second.status()));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("127.0.0.1:" + std::to_string(server->port()) + ": Address already in use"));
}

TEST(Http, AnEndlessAnswerComesAsItIsMadeAndEndsWithTheServer) {
  auto server = counting_server();
  RawHttp client(server->port());
  client.say(kAskForStream);
  EXPECT_TRUE(client.reads("text/event-stream"));
  EXPECT_TRUE(client.reads("data: 3\n\n"));
  server.reset();
  EXPECT_TRUE(client.reads_the_end());
}

TEST(Http, WhoIsToldEndlesslyTakesNobodysTurn) {
  const auto server = counting_server();
  const HttpPlace place{.host = "127.0.0.1", .port = server->port()};
  auto told = std::make_unique<std::vector<std::unique_ptr<RawHttp>>>();
  for (int i = 0; i < actors::kStreamsMost; ++i) {
    told->push_back(std::make_unique<RawHttp>(server->port()));
    told->back()->say(kAskForStream);
    EXPECT_TRUE(told->back()->reads("data: 1\n\n"));
  }
  const auto refused = actors::http_get(place, "/stream", kLong);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
  EXPECT_TRUE(actors::http_get(place, "/x", kLong).ok());
  told.reset();  // their places are free again
  EXPECT_TRUE(wait_until([&] {
    RawHttp client(server->port());
    client.say(kAskForStream);
    return client.reads("data: 1\n\n");
  }, kLong));
}

}  // namespace
}  // namespace troupe::test
