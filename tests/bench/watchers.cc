#include "tests/bench/watchers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "actors/inspect/http.h"
#include "actors/inspect/runtime_folder.h"

namespace troupe::bench {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kEvery = 1s, kPatience = 20s;

// Answers each packet with the count.
void say_count(int socket, std::int64_t count) { send_packet(socket, std::to_string(count)); }

void ask_each_second(int socket, const std::string& job) {
  std::int64_t asked = 0;
  for (auto due = Clock::now();;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(due - Clock::now());
    pollfd packet{socket, POLLIN, 0};
    if (poll(&packet, 1, static_cast<int>(std::max<std::int64_t>(0, left.count()))) > 0) {
      if (next_packet(socket).empty()) return;
      say_count(socket, asked);
      continue;
    }
    due += kEvery;
    const auto folder = actors::open_runtime_folder();
    if (!folder.ok()) continue;
    for (const auto& card : actors::running_cards(*folder)) {
      if (card.job != job) continue;
      if (actors::http_get({.socket = card.socket}, "/v1/frame", kPatience).ok()) ++asked;
      break;
    }
  }
}

// As a browser whose page is open.
void read_events(int socket, int port) {
  const int page = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const std::string request = absl::StrCat("GET /v1/stream HTTP/1.1\r\nHost: 127.0.0.1:", port, "\r\n\r\n");
  if (connect(page, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || send(page, request.data(), request.size(), MSG_NOSIGNAL) < 0) _exit(1);
  std::int64_t events = 0;
  char last = 0;
  while (true) {
    pollfd both[] = {{socket, POLLIN, 0}, {page, POLLIN, 0}};
    if (poll(both, 2, -1) < 0) continue;
    if (both[0].revents != 0) {
      if (next_packet(socket).empty()) return;
      say_count(socket, events);
    }
    if (both[1].revents == 0) continue;
    char piece[65536];
    const ssize_t bytes = recv(page, piece, sizeof piece, 0);
    if (bytes <= 0) _exit(1);
    for (ssize_t i = 0; i < bytes; ++i) {  // an event ends with an empty line
      if (piece[i] == '\n' && last == '\n') ++events;
      if (piece[i] != '\r') last = piece[i];
    }
  }
}

StatusOr<std::int64_t> count_of(ForkedRanks& process) {
  TROUPE_RETURN_IF_ERROR(process.send(0, "looks"));
  TROUPE_ASSIGN_OR_RETURN(const std::string said, process.receive(0));
  std::int64_t count = 0;
  if (!absl::SimpleAtoi(said, &count)) return absl::UnavailableError(absl::StrCat("who looks into the job said: ", said));
  return count;
}

// From the address that the dashboard says it is at.
StatusOr<int> port_of(const ChildProgram& dashboard) {
  for (const auto due = Clock::now() + kPatience; Clock::now() < due; std::this_thread::sleep_for(5ms)) {
    const std::string said = dashboard.out() + dashboard.err();
    const std::string before = "http://127.0.0.1:";
    const auto at = said.find(before);
    int port = 0;
    if (at != std::string::npos && said.find('\n', at) != std::string::npos && std::sscanf(said.c_str() + at + before.size(), "%d", &port) == 1) return port;
  }
  return absl::UnavailableError(absl::StrCat("the dashboard did not open: ", dashboard.out(), dashboard.err()));
}

}  // namespace

StatusOr<std::unique_ptr<Watchers>> Watchers::start(const std::string& program, const std::string& job) {
  std::unique_ptr<Watchers> made(new Watchers);
  TROUPE_ASSIGN_OR_RETURN(made->asker_, ForkedRanks::fork(1, [&](int socket, int) { ask_each_second(socket, job); }));
  TROUPE_ASSIGN_OR_RETURN(auto dashboard, ChildProgram::start({program, "dashboard", job, "--listen", "127.0.0.1:0"}));
  made->dashboard_ = std::make_unique<ChildProgram>(std::move(dashboard));
  TROUPE_ASSIGN_OR_RETURN(const int port, port_of(*made->dashboard_));
  TROUPE_ASSIGN_OR_RETURN(made->page_, ForkedRanks::fork(1, [&](int socket, int) { read_events(socket, port); }));
  return made;
}

Watchers::~Watchers() { page_ = {}; }  // before the dashboard, which it reads

StatusOr<Watchers::Looks> Watchers::looks() {
  Looks looks;
  TROUPE_ASSIGN_OR_RETURN(looks.asked, count_of(asker_));
  TROUPE_ASSIGN_OR_RETURN(looks.events, count_of(page_));
  return looks;
}

}  // namespace troupe::bench
