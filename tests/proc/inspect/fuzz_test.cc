// Whatever comes to the doors of a process: it lives, answers the next good request, takes no wrong token, and does not grow.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <random>
#include <vector>

#include "actors/inspect/inspector.h"
#include "tests/proc/inspect/inspect_fixture.h"
#include "tests/proc/inspect/raw_http.h"
#include "tests/sim/seeds.h"

namespace troupe::test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr std::int64_t kGrowsBytesMost = 48 << 20;

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

class InspectFuzz : public Inspect {
 public:
  void SetUp() override {
    inspector_ = std::make_unique<actors::Inspector>(actors::Inspector::Setup{
        .job = "0123abcd", .program = "test", .ranks = {{.rank = Rank(0), .probes = &probes_}}, .key = std::string(32, 'k')});
    ASSERT_TRUE(inspector_->listen("127.0.0.1:0").ok());
  }
  int port() const { return inspector_->port(); }
  static std::string token() { return actors::Authority(std::string(32, 'k'), 0, 1).token(); }
  json job() const { return json::parse(actors::http_get({.host = "127.0.0.1", .port = port()}, "/v1/job", 20s).value_or("{}")); }
  std::int64_t refused() const { return job().value("refused", std::int64_t{-1}); }

  std::string bytes(std::size_t most) {
    std::string text(random_() % most, '\0');
    for (char& c : text) c = static_cast<char>(random_());
    return text;
  }
  std::string good() { return "GET /v1/job HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nX-Word: " + std::to_string(random_()) + "\r\n\r\n"; }
  template <class T>
  const T& one_of(const std::vector<T>& all) {
    return all[random_() % all.size()];
  }

  std::string random_bytes_of_any_kind() { return bytes(2000); }
  std::string cut_request() { return good().substr(0, random_() % good().size()); }
  std::string broken_request() {
    std::string text = good();
    for (std::size_t i = 1 + random_() % 4; i > 0; --i) text[random_() % text.size()] = static_cast<char>(random_());
    return text;
  }
  std::string huge_header() {
    return "GET /v1/job HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(1 << (random_() % 21), 'x') + "\r\n\r\n";
  }
  std::string many_headers() {
    std::string text = "GET /v1/job HTTP/1.1\r\nHost: localhost\r\n";
    for (std::size_t i = random_() % 20'000; i > 0; --i) text += "X" + std::to_string(i) + ": y\r\n";
    return text + "\r\n";
  }
  std::string huge_body() {
    const std::string length = one_of<std::string>({"5", "1000000", "99999999999999999999", "-1", "0x10", ""});
    return "POST /v1/pause HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + length + "\r\n\r\n" + std::string(random_() % 2'000'000, 'b');
  }
  std::string chunked_body() {
    return "POST /v1/pause HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + one_of<std::string>({"ffffffffffffffff\r\n", "-5\r\nabc", "zz\r\n", "3\r\nabc\r\n0\r\n\r\n"}) + bytes(100);
  }
  std::string bad_path() {
    const std::string path = one_of<std::string>({"/v1/mailbox?actor=%", "/v1/mailbox?actor=%zz", "/v1/mailbox?actor=%00%ff%u1234%", "/v1/%2e%2e/%2e%2e/etc/passwd", "/../../etc/passwd",
                                                  "/v1/ranks?ranks=" + std::string(7000, '1'), "/v1/ranks?patience_s=nan", "/v1/ranks?patience_s=-1e999", "*", "//", "/v1/job?&&==&=%",
                                                  "/" + std::string(9000, 'a'), "http://evil.example/v1/job"});
    return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  }
  std::string wrong_method() {
    return one_of<std::string>({"PUT", "DELETE", "OPTIONS", "HEAD", "TRACE", "CONNECT", "PATCH", "BREW", "get", "PRI", ""}) + " /v1/job " +
           one_of<std::string>({"HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/", "ICY", ""}) + "\r\nHost: localhost\r\n\r\n";
  }

  std::mt19937_64 random_;

 private:
  const trace::ProbeRegistry probes_{[](std::uint32_t) { return std::string("type"); }, nullptr};
  std::unique_ptr<actors::Inspector> inspector_;
};

TEST_F(InspectFuzz, WhoeverComesTheNextGoodRequestIsAnswered) {
  ASSERT_EQ(job()["job"], "0123abcd");
  const std::int64_t before = resident_bytes();
  const std::vector<std::string (InspectFuzz::*)()> kinds{&InspectFuzz::random_bytes_of_any_kind, &InspectFuzz::cut_request, &InspectFuzz::broken_request,
                                                          &InspectFuzz::huge_header, &InspectFuzz::many_headers, &InspectFuzz::huge_body,
                                                          &InspectFuzz::chunked_body, &InspectFuzz::bad_path, &InspectFuzz::wrong_method};
  const std::uint64_t count = seeds(360, 90);
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    random_.seed(seed);
    SCOPED_TRACE(seed);
    {
      RawHttp client(port());
      client.say((this->*kinds[seed % kinds.size()])());
      client.say_no_more();
      if (random_() % 4 != 0) (void)client.read_all();
    }
    if (seed % 12 == 0) {
      ASSERT_EQ(job()["job"], "0123abcd");
    }
  }
  EXPECT_EQ(job()["job"], "0123abcd");
  EXPECT_LT(resident_bytes() - before, kGrowsBytesMost);
}

TEST_F(InspectFuzz, WhoSendsWithoutEndOrSlowlyIsCutOff) {
  const std::int64_t before = resident_bytes();
  std::vector<std::unique_ptr<RawHttp>> slow;
  for (int i = 0; i < 24; ++i) {  // twice as many as it has threads
    slow.push_back(std::make_unique<RawHttp>(port()));
    slow.back()->say(i % 3 == 0 ? "" : i % 3 == 1 ? "GET /v1/job HT" : "GET /v1/job HTTP/1.1\r\nHost: localhost\r\nX-Never: ");
  }
  RawHttp endless(port());
  std::string lines;
  for (int i = 0; i < 100'000; ++i) lines += "X-Header-" + std::to_string(i) + ": of very many\r\n";
  endless.say("GET /v1/job HTTP/1.1\r\n" + lines);
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(job()["job"], "0123abcd");
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 15s);
  // A byte now and then keeps nobody's place: the server hangs up although bytes still come.
  RawHttp drips(port());
  drips.say("GET /v1/job HTTP/1.1\r\n");
  ASSERT_TRUE(wait_until([&] { return !drips.takes("X"); }, 20s));
  for (auto& client : slow) EXPECT_THAT(client->status(), testing::AnyOf(0, 400)) << "nothing but that it was no request";
  EXPECT_LT(resident_bytes() - before, kGrowsBytesMost);
}

TEST_F(InspectFuzz, EveryWrongTokenIsRefusedAndCounted) {
  const std::string right = token();
  std::vector<std::string> wrong;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    random_.seed(seed);
    std::string text = right;
    switch (seed % 5) {
      case 0: text[random_() % text.size()] ^= 1; break;
      case 1: text.resize(random_() % text.size()); break;
      case 2: text += text[random_() % text.size()]; break;
      case 3: std::ranges::shuffle(text, random_); break;
      case 4: text = std::string(random_() % 5000, 'f'); break;
    }
    wrong.push_back("Bearer " + text);
  }
  for (const std::string& text : {std::string("Bearer"), std::string("Basic ") + right, "bearer  " + right + "x", right, std::string("Bearer ") + std::string(3, '\1')}) wrong.push_back(text);
  const std::int64_t before = refused();
  for (const auto& text : wrong) {
    RawHttp client(port());
    client.say("POST /v1/pause?actor=x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nAuthorization: " + text + "\r\n\r\n");
    const int status = client.status();
    EXPECT_TRUE(status == 401 || status == 403) << text << ": " << status;
  }
  EXPECT_EQ(refused() - before, static_cast<std::int64_t>(wrong.size()));
  RawHttp client(port());
  client.say("POST /v1/pause?actor=0/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nAuthorization: Bearer " + right + "\r\n\r\n");
  EXPECT_EQ(client.status(), 409) << "no actor here can be told anything, but it was heard";
}

}  // namespace
}  // namespace troupe::test
