// Who may open the door to a job, and what comes of a door that cannot be opened.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "actors/inspect/inspector.h"
#include "tests/fault/run.h"
#include "tests/proc/inspect/inspect_fixture.h"

namespace troupe::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr auto kSoon = 20s;

class Door : public Inspect {
 protected:
  actors::Inspector::Setup setup() const { return {.job = "0123abcd", .program = "test", .ranks = {{.rank = Rank(0), .probes = &probes_}}}; }
  // As a stranger to HTTP; nothing is read.
  static int connect_to(const std::string& socket) {
    const int client = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    std::strncpy(address.sun_path, socket.c_str(), sizeof address.sun_path - 1);
    EXPECT_EQ(connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0) << socket;
    return client;
  }

 private:
  const trace::ProbeRegistry probes_{[](std::uint32_t) { return std::string("type"); }, nullptr};
};

TEST_F(Door, AnswersInJsonAndSaysWhatIsWrong) {
  const actors::Inspector inspector(setup());
  const auto get = [&](const std::string& target) { return actors::http_get({.socket = inspector.socket()}, target, kSoon); };
  const auto job = get("/v1/job");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(nlohmann::json::parse(*job)["ranks"][0]["pid"], getpid());
  EXPECT_EQ(nlohmann::json::parse(*job)["schema"], 1);
  EXPECT_THAT(std::string(get("/v1/nonsense").status().message()), HasSubstr("there is no /v1/nonsense"));
  EXPECT_THAT(std::string(get("/v1/actors?ranks=1").status().message()), HasSubstr("'1' is no rank"));
  EXPECT_THAT(std::string(get("/v1/actors?patience_s=11").status().message()), HasSubstr("at most 10"));
  EXPECT_THAT(std::string(get("/v1/mailbox").status().message()), HasSubstr("whose mailbox?"));
}

TEST_F(Door, NonsenseAndSilenceHarmNobody) {
  auto inspector = std::make_unique<actors::Inspector>(setup());
  const std::string socket = inspector->socket();
  std::vector<int> clients;
  for (int i = 0; i < 2; ++i) clients.push_back(connect_to(socket));  // say nothing
  for (const std::string text : {"POST /v1/job HTTP/1.1\r\nContent-Length: 4\r\n\r\nabcd", "\x01\x02\x03\r\n\r\n", "GET /v1/job HTTP/1.1\r\n"}) {
    clients.push_back(connect_to(socket));
    EXPECT_EQ(send(clients.back(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  EXPECT_TRUE(wait_until([&] { return actors::http_get({.socket = socket}, "/v1/job", kSoon).ok(); }, kSoon));
  inspector.reset();  // while they are still there
  for (const int client : clients) close(client);
  EXPECT_EQ(files(), 0u);
}

TEST_F(Door, OnlyOnesOwnFolderIsUsed) {
  ASSERT_EQ(chmod(runtime().c_str(), 0755), 0);
  const Ended open_to_all = tool({"jobs"});
  EXPECT_EQ(open_to_all.exit_code, 2);
  EXPECT_THAT(open_to_all.err, HasSubstr("is open to others (mode 0755); say chmod 700 " + runtime()));
  EXPECT_EQ(actors::Inspector(setup()).socket(), "");
  EXPECT_EQ(files(), 0u);
  ASSERT_EQ(chmod(runtime().c_str(), 0700), 0);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(runtime().c_str(), 65534, 65534), 0);
    EXPECT_THAT(tool({"jobs"}).err, HasSubstr("belongs to user 65534"));
    EXPECT_EQ(actors::Inspector(setup()).socket(), "");
    ASSERT_EQ(chown(runtime().c_str(), 0, 0), 0);
  }
  setenv("TROUPE_RUNTIME_DIR", (folder() + "/" + std::string(100, 'x')).c_str(), 1);
  EXPECT_EQ(actors::Inspector(setup()).socket(), "");
}

TEST_F(Door, ATrainingGoesOnWithoutIt) {
  const TinyRun run;
  ASSERT_EQ(chmod(runtime().c_str(), 0755), 0);
  const Ended ended = tool(run.train("job", {}));
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_THAT(ended.err, HasSubstr("troupe inspect will not find this process: "));
}

// Its name is there, nobody is behind it: another has its pid by now.
TEST_F(Door, AStaleCardIsNotTakenForAProcess) {
  const std::string stem = runtime() + "/0123abcd.0";
  {
    std::ofstream(stem + ".json") << R"({"job":"0123abcd","rank":0,"world":1,"pid":)" << getpid() << R"(,"host":"h","program":"p","output":"","started_unix_s":1})";
    std::ofstream(stem + ".sock");
  }
  EXPECT_THAT(tool({"inspect", "actors"}).err, HasSubstr("no job of this user runs"));
  EXPECT_EQ(files(), 0u);
}

}  // namespace
}  // namespace troupe::test
