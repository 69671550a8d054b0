// The door that is opened on a TCP port when somebody asks for it.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "actors/inspect/inspector.h"
#include "tests/proc/inspect/inspect_fixture.h"
#include "tests/proc/inspect/raw_http.h"
#include "tests/proc/train/cluster.h"

namespace troupe::test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::HasSubstr;

constexpr auto kWithin = 20s;

class Listen : public Inspect {
 protected:
  actors::Inspector::Setup setup() const {
    return {.job = "0123abcd", .program = "test", .ranks = {{.rank = Rank(0), .probes = &probes_}}, .key = std::string(32, 'k')};
  }
  static std::string token() { return actors::Authority(std::string(32, 'k'), 0, 1).token(); }
  static json job_at(int port, const std::string& shown = {}) {
    return json::parse(actors::http_get({.host = "127.0.0.1", .port = port, .token = shown}, "/v1/job", kWithin).value_or("{}"));
  }

 private:
  const trace::ProbeRegistry probes_{[](std::uint32_t) { return std::string("type"); }, nullptr};
};

TEST_F(Listen, ALoopbackAddressIsReadWithoutAToken) {
  actors::Inspector inspector(setup());
  ASSERT_TRUE(inspector.listen("127.0.0.1:0").ok());
  EXPECT_EQ(job_at(inspector.port())["job"], "0123abcd");
  EXPECT_EQ(job_at(inspector.port(), token())["job"], "0123abcd");
  EXPECT_EQ(job_at(inspector.port(), "wrong"), json::object()) << "a wrong one is refused also where none is needed";
  const auto told = actors::http_post({.host = "127.0.0.1", .port = inspector.port()}, "/v1/pause?actor=x", kWithin);
  EXPECT_TRUE(absl::IsPermissionDenied(told.status())) << told.status();
  const auto told_with = actors::http_post({.host = "127.0.0.1", .port = inspector.port(), .token = token()}, "/v1/pause?actor=x", kWithin);
  EXPECT_TRUE(absl::IsNotFound(told_with.status()) || absl::IsFailedPrecondition(told_with.status())) << told_with.status();
  EXPECT_EQ(job_at(inspector.port())["refused"], 2);
}

// A page in somebody's browser that calls this machine by a name of its own.
TEST_F(Listen, WhoCallsALoopbackAddressByAnotherNameIsRefused) {
  actors::Inspector inspector(setup());
  ASSERT_TRUE(inspector.listen("127.0.0.1:0").ok());
  const auto status_for = [&](const std::string& header) {
    RawHttp client(inspector.port());
    client.say("GET /v1/job HTTP/1.1\r\n" + header + "\r\n");
    return client.status();
  };
  const std::string port = std::to_string(inspector.port());
  for (const std::string host : {"localhost", "127.0.0.1", "127.1.2.3", "[::1]"}) {
    EXPECT_EQ(status_for("Host: " + host + "\r\n"), 200) << host;
    EXPECT_EQ(status_for("Host: " + host + ":" + port + "\r\n"), 200) << host;
  }
  int refused = 0;
  for (const std::string& host : {"evil.example:" + port, std::string("evil.example"), std::string("127.0.0.1.evil.example"), std::string("localhost.evil.example:80"),
                                 std::string("10.0.0.1"), std::string("")}) {
    EXPECT_EQ(status_for("Host: " + host + "\r\n"), 403) << host;
    ++refused;
  }
  EXPECT_EQ(status_for(""), 403);
  EXPECT_EQ(status_for("Host: evil.example\r\nAuthorization: Bearer " + token() + "\r\n"), 200) << "who has the token may call it anything";
  EXPECT_EQ(job_at(inspector.port())["refused"], refused + 1);
}

TEST_F(Listen, AnotherAddressNeedsTheTokenForEverything) {
  actors::Inspector inspector(setup());
  ASSERT_TRUE(inspector.listen("0.0.0.0:0").ok());
  const actors::HttpPlace stranger{.host = "127.0.0.1", .port = inspector.port()};
  actors::HttpPlace owner = stranger;
  owner.token = token();
  for (const char* path : {"/v1/ping", "/v1/job", "/v1/nonsense", "/"}) {
    EXPECT_TRUE(absl::IsPermissionDenied(actors::http_get(stranger, path, kWithin).status())) << path;
  }
  EXPECT_TRUE(actors::http_get(owner, "/v1/ping", kWithin).ok());
  EXPECT_EQ(job_at(inspector.port(), token())["refused"], 4);
}

TEST_F(Listen, ServesThePageThatDescribesItsAnswers) {
  actors::Inspector inspector(setup());
  ASSERT_TRUE(inspector.listen("127.0.0.1:0").ok());
  const auto page = actors::http_get({.host = "127.0.0.1", .port = inspector.port()}, "/v1/schema", kWithin);
  ASSERT_TRUE(page.ok()) << page.status();
  std::ifstream file("runtime/trace/SCHEMA.md");
  EXPECT_EQ(*page, std::string(std::istreambuf_iterator<char>(file), {}));
  EXPECT_THAT(*page, HasSubstr("`in_handler_s`"));
}

TEST_F(Listen, WhoGetsNoKeyAndIsAloneMakesOne) {
  auto keyless = setup();
  keyless.key = "";
  actors::Inspector inspector(keyless);
  ASSERT_TRUE(inspector.listen("0.0.0.0:0").ok());
  const auto token = actors::read_token(actors::token_file(actors::running_cards(runtime()).at(0)));
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_NE(*token, Listen::token());
  EXPECT_EQ(job_at(inspector.port(), *token)["job"], "0123abcd");
}

TEST_F(Listen, SaysWhatIsWrongWithAnAddress) {
  actors::Inspector inspector(setup()), second(setup());
  ASSERT_TRUE(inspector.listen("127.0.0.1:0").ok());
  const std::string taken = "127.0.0.1:" + std::to_string(inspector.port());
  EXPECT_THAT(std::string(second.listen(taken).message()), HasSubstr("cannot listen at " + taken + ": Address already in use"));
  for (const auto& [address, why] : std::vector<std::pair<std::string, std::string>>{{"7070", "it has no port"},
                                                                                     {"", "it has no port"},
                                                                                     {":7070", "it has no host"},
                                                                                     {"localhost:", "the port is a number"},
                                                                                     {"localhost:70000", "the port is a number"},
                                                                                     {"localhost:-1", "the port is a number"},
                                                                                     {"localhost:7o", "the port is a number"},
                                                                                     {"::1:7070", "stands in brackets"},
                                                                                     {"http://localhost:7070", "no host's name"}}) {
    const Status status = second.listen(address);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << address;
    EXPECT_THAT(std::string(status.message()), testing::AllOf(HasSubstr(why), HasSubstr("say HOST:PORT, such as 127.0.0.1:7070"))) << address;
  }
  EXPECT_TRUE(absl::IsUnavailable(second.listen("nowhere.invalid:7070")));
}

TEST_F(Listen, ATrainingListensWhereItIsTold) {
  TinyRun run;
  const std::vector<std::string> endless{"--training.steps=1000000", "--lr_scheduler.total_steps=1000000"};
  auto words = run.train("job", endless);
  words.push_back("--job.inspect_listen=127.0.0.1:0");
  ToolProcess job(words, folder());
  const std::string says = "looked into at 127.0.0.1:0, which is port ";
  ASSERT_TRUE(wait_until([&] { return job.err().find(says) != std::string::npos || !job.running(); })) << job.err();
  const std::string text = job.err();
  const std::string port = std::to_string(std::stoi(text.substr(text.find(says) + says.size())));
  const std::string address = "127.0.0.1:" + port;
  ASSERT_TRUE(wait_until([&] { return steps_of(run.output("job")).size() >= 2 || !job.running(); }));
  const Ended paused = tool({"pause", "0/stage-0", "--connect", address});
  EXPECT_EQ(paused.exit_code, 2);
  EXPECT_THAT(paused.err, HasSubstr("shows its token: --token-file FILE"));
  std::string token_file;
  for (const auto& card : actors::running_cards(runtime())) token_file = actors::token_file(card);
  EXPECT_THAT(tool({"pause", "0/stage-0", "--connect", address, "--token-file", token_file}).out, HasSubstr("0/stage-0 "));
  EXPECT_EQ(tool({"inspect", "actors", "--connect", address, "--json"}).exit_code, 0);
  EXPECT_THAT(tool({"pause", "0/stage-0", "--connect", "nonsense"}).err, HasSubstr("'nonsense' is no address"));

  const TinyRun other;
  auto second = other.train("job", endless);
  second.push_back("--job.inspect_listen=" + address);
  const Ended in_use = tool(second);
  EXPECT_EQ(in_use.exit_code, 1);
  EXPECT_THAT(in_use.err, HasSubstr("cannot listen at " + address + ": Address already in use"));
  const Ended malformed = tool(other.train("job", {"--job.inspect_listen=7070"}));
  EXPECT_EQ(malformed.exit_code, 2);
  EXPECT_THAT(malformed.err, HasSubstr("job.inspect_listen: '7070' is no address: it has no port"));
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait(60s).exit_code, 0) << "stage-0 was paused";
}

}  // namespace
}  // namespace troupe::test
