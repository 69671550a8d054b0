#include <sys/stat.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tools/troupe/commands.h"
#include "tools/troupe/dashboard_server.h"

namespace troupe::tool {
namespace {

// "127.0.0.1:8265", "[::1]:0"
StatusOr<actors::HttpPlace> place_of(const std::string& listen) {
  const std::size_t colon = listen.rfind(':');
  int port = -1;
  if (colon == std::string::npos || colon == 0 || !absl::SimpleAtoi(listen.substr(colon + 1), &port) || port < 0 || port > 65535)
    return absl::InvalidArgumentError(absl::StrCat("--listen ", listen, " is no ADDRESS:PORT, such as 127.0.0.1:", kDashboardPort));
  std::string host = listen.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return actors::HttpPlace{.host = host, .port = port};
}

StatusOr<std::string> token_in(const std::string& path) {
  if (path.empty()) return std::string();
  struct stat file{};
  if (stat(path.c_str(), &file) != 0) return absl::NotFoundError(absl::StrCat("--token-file ", path, ": there is no such file"));
  if ((file.st_mode & (S_IRWXG | S_IRWXO)) != 0) return absl::FailedPreconditionError(absl::StrCat("--token-file ", path, ": others may read it; chmod 600 ", path));
  std::ifstream input(path, std::ios::binary);
  std::string token{std::istreambuf_iterator<char>(input), {}};
  token = std::string(absl::StripAsciiWhitespace(token));
  if (token.size() < 16) return absl::InvalidArgumentError(absl::StrCat("--token-file ", path, ": holds ", token.size(), " characters, and must hold at least 16: openssl rand -hex 16 makes some"));
  return token;
}

StatusOr<std::unique_ptr<FrameSource>> source_of(const DashboardArguments& arguments) {
  if (!arguments.replay.empty()) {
    if (!arguments.job.empty()) return absl::InvalidArgumentError("dashboard: either a running JOB or --replay FILE");
    return RecordedFrames::open(arguments.replay, arguments.speed);
  }
  TROUPE_ASSIGN_OR_RETURN(auto job, running_job(arguments.job));
  return std::make_unique<JobFrames>(std::move(job), arguments.job);
}

}  // namespace

Status dashboard(const DashboardArguments& arguments) {
  TROUPE_ASSIGN_OR_RETURN(auto place, place_of(arguments.listen));
  TROUPE_ASSIGN_OR_RETURN(place.token, token_in(arguments.token_file));
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGINT);
  sigaddset(&ending, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ending, nullptr);  // before there are threads
  TROUPE_ASSIGN_OR_RETURN(auto source, source_of(arguments));
  TROUPE_ASSIGN_OR_RETURN(const auto feed, DashboardFeed::start(std::move(source), arguments.record));
  TROUPE_ASSIGN_OR_RETURN(const auto server, DashboardServer::open(place, *feed));
  std::printf("dashboard: %s%s\n", server->address().c_str(), place.token.empty() ? "" : absl::StrCat("#token=TOKEN, which is in ", arguments.token_file).c_str());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&ending, &signal);
  pthread_sigmask(SIG_UNBLOCK, &ending, nullptr);  // another one does not wait for an answer that is under way
  feed->end("the dashboard was ended");
  return ok();
}

}  // namespace troupe::tool
