#include "tools/troupe/launch_environment.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"

namespace troupe::tool {

JobEnvironment environment_of(const std::vector<HostSlots>& hosts, JobEnvironment job, const std::string& address) {
  job.master_port = free_port();
  const auto away = std::ranges::find_if(hosts, [](const HostSlots& host) { return !is_this_host(host.host); });
  if (away == hosts.end()) return job;
  job.store_host_there = address.empty() ? address_towards(away->host) : address;
  if (job.store_host_there.empty()) job.store_host_there = "launcher";
  if (!is_this_host(hosts[0].host)) job.master_host = hosts[0].host;
  else if (job.store_host_there != "launcher") job.master_host = job.store_host_there;
  return job;
}

std::vector<std::vector<RankStart>> starts_of(const std::vector<HostSlots>& hosts, const JobEnvironment& environment) {
  int world = 0, rank = 0;
  for (const auto& host : hosts) world += host.slots;
  std::vector<std::vector<RankStart>> starts;
  for (const auto& host : hosts) {
    auto& ranks = starts.emplace_back();
    const std::string& store_host = is_this_host(host.host) ? environment.store_host_here : environment.store_host_there;
    for (int local = 0; local < host.slots; ++local, ++rank) {
      std::vector<std::string> variables;
      const auto add = [&](const char* name, const auto& value) { variables.push_back(absl::StrCat(name, "=", value)); };
      for (const char* prefix : {"TROUPE_", ""}) {
        add(absl::StrCat(prefix, "RANK").c_str(), rank);
        add(absl::StrCat(prefix, "WORLD_SIZE").c_str(), world);
        add(absl::StrCat(prefix, "LOCAL_RANK").c_str(), local);
        add(absl::StrCat(prefix, "LOCAL_WORLD_SIZE").c_str(), host.slots);
      }
      add("TROUPE_STORE", absl::StrCat(store_host, ":", environment.store_port));
      add("TROUPE_SECRET", environment.secret);
      add("MASTER_ADDR", environment.master_host);
      add("MASTER_PORT", environment.master_port);
      variables.insert(variables.end(), environment.more.begin(), environment.more.end());
      ranks.push_back({Rank{rank}, std::move(variables)});
    }
  }
  return starts;
}

// A UDP socket that is connected has a local address, and nothing was sent.
std::string address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), "9", &hints, &found) != 0) return "";
  std::string address;
  for (const addrinfo* at = found; at != nullptr && address.empty(); at = at->ai_next) {
    const int fd = socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_storage ours{};
    socklen_t size = sizeof ours;
    std::array<char, NI_MAXHOST> text{};
    if (connect(fd, at->ai_addr, at->ai_addrlen) == 0 && getsockname(fd, reinterpret_cast<sockaddr*>(&ours), &size) == 0 &&
        getnameinfo(reinterpret_cast<const sockaddr*>(&ours), size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0) {
      address = text.data();
    }
    close(fd);
  }
  freeaddrinfo(found);
  return address;
}

int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof address;
  const bool bound = bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  close(fd);
  return bound ? ntohs(address.sin_port) : 29500;
}

}  // namespace troupe::tool
