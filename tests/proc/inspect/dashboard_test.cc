// Who may ask a dashboard, and what is refused before it opens.
#include <fstream>

#include "tests/proc/inspect/inspect_fixture.h"
#include "tests/proc/inspect/raw_http.h"

namespace troupe::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class DashboardDoor : public Inspect {
 protected:
  std::string frames() const {
    const std::string path = folder() + "/frames.jsonl";
    std::ofstream(path) << R"({"schema":1,"format":"troupe frames"})" << "\n" << R"({"schema":1,"at_unix_s":1,"job":{"job":"a"},"ranks":[]})" << "\n";
    return path;
  }
  std::string token_file(const std::string& token) const {
    const std::string path = folder() + "/token";
    std::ofstream(path) << token << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    return path;
  }
  // Of a dashboard at any port, once it says where it is.
  int port_of(ToolProcess& dashboard) const {
    std::string said;
    EXPECT_TRUE(wait_until([&] {
      said = dashboard.out();
      return said.find("dashboard: http") != std::string::npos || !dashboard.running();
    })) << dashboard.err();
    const std::size_t begin = said.find("127.0.0.1:");
    return begin == std::string::npos ? 0 : std::atoi(said.c_str() + begin + 10);
  }
  // All of an answer that ends; an endless one's beginning, as much as `enough` says.
  static std::string asked(int port, const std::string& request, const std::string& enough = "\n\n\n") {
    RawHttp client(port);
    client.say(request);
    (void)client.reads(enough);
    return client.heard();
  }
  static std::string get(const std::string& target, const std::string& host, const std::string& token = "") {
    return "GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n" + (token.empty() ? "" : "Authorization: Bearer " + token + "\r\n") + "\r\n";
  }
};

TEST_F(DashboardDoor, AnotherNameIsRefused) {
  ToolProcess dashboard({"dashboard", "--replay", frames(), "--listen", "127.0.0.1:0"}, folder());
  const int port = port_of(dashboard);
  for (const std::string host : {"localhost", "127.0.0.1", "[::1]", "localhost:8265"}) {
    EXPECT_THAT(asked(port, get("/v1/status", host)), StartsWith("HTTP/1.1 200")) << host;
  }
  for (const std::string host : {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8265", "", "10.0.0.1"}) {
    for (const std::string target : {"/", "/v1/status", "/v1/stream", "/v1/history"}) {
      EXPECT_THAT(asked(port, get(target, host)), StartsWith("HTTP/1.1 403")) << host << " " << target;
    }
  }
  EXPECT_THAT(asked(port, "POST /v1/status HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"), StartsWith("HTTP/1.1 405"));
  dashboard.signal(SIGTERM);
  EXPECT_EQ(dashboard.wait().exit_code, 0);
}

TEST_F(DashboardDoor, TheTokenOpensTheData) {
  const std::string token = "0123456789abcdef0123";
  ToolProcess dashboard({"dashboard", "--replay", frames(), "--listen", "127.0.0.1:0", "--token-file", token_file(token)}, folder());
  const int port = port_of(dashboard);
  EXPECT_THAT(asked(port, get("/", "any.name")), StartsWith("HTTP/1.1 200"));  // the page itself is no secret
  for (const std::string target : {"/v1/status", "/v1/stream", "/v1/history", "/v1/trace"}) {
    EXPECT_THAT(asked(port, get(target, "localhost")), StartsWith("HTTP/1.1 401")) << target;
    EXPECT_THAT(asked(port, get(target, "localhost", "0123456789abcdef012x")), StartsWith("HTTP/1.1 401")) << target;
    EXPECT_THAT(asked(port, get(target, "localhost", token + "4")), StartsWith("HTTP/1.1 401")) << target;
  }
  EXPECT_THAT(asked(port, get("/v1/stream", "localhost", token), "event: frame"), HasSubstr("event: frame"));
  EXPECT_THAT(dashboard.out(), testing::Not(HasSubstr(token)));  // terminals are looked at by others
}

TEST_F(DashboardDoor, IsNotOpenedToOthersWithoutAToken) {
  EXPECT_THAT(tool({"dashboard", "--replay", frames(), "--listen", "0.0.0.0:0"}).err, HasSubstr("say --token-file FILE"));
  EXPECT_THAT(tool({"dashboard", "--replay", frames(), "--token-file", token_file("short")}).err, HasSubstr("must hold at least 16"));
  const std::string path = token_file("0123456789abcdef0123");
  std::filesystem::permissions(path, std::filesystem::perms::others_read, std::filesystem::perm_options::add);
  EXPECT_THAT(tool({"dashboard", "--replay", frames(), "--token-file", path}).err, HasSubstr("others may read it; chmod 600"));
}

TEST_F(DashboardDoor, SaysWhatIsWrongWithItsArguments) {
  const auto err = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "dashboard");
    const Ended ended = tool(words);
    EXPECT_EQ(ended.exit_code, 2);
    return ended.err;
  };
  EXPECT_THAT(err({}), HasSubstr("no job of this user runs"));
  EXPECT_THAT(err({"--replay", frames(), "--listen", "8265"}), HasSubstr("--listen 8265 is no ADDRESS:PORT, such as 127.0.0.1:8265"));
  EXPECT_THAT(err({"--replay", folder() + "/none"}), HasSubstr("there is no such file"));
  const std::string other = folder() + "/other";
  std::ofstream(other) << "{}\n";
  EXPECT_THAT(err({"--replay", other}), HasSubstr("its first line must be"));
  EXPECT_THAT(err({"--replay", frames(), "--record", other}), HasSubstr("there is such a file; name another one"));
  EXPECT_THAT(err({"--replay", frames(), "--speed", "0"}), HasSubstr("'0' is not a number above 0"));
  EXPECT_THAT(err({"a", "--replay", frames()}), HasSubstr("either a running JOB or --replay FILE"));
}

}  // namespace
}  // namespace troupe::test
