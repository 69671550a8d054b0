// The TCP ports at which processes of this machine listen, as /proc tells.
#pragma once

#include <netinet/in.h>

#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tool/tool_process.h"

namespace troupe::test {

// Of one process; IPv4 only, and IPv6 sockets as their IPv4 loopback.
inline std::vector<sockaddr_in> listeners_of(pid_t pid) {
  std::set<std::string> inodes;
  std::error_code error;
  for (const auto& fd : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", error)) {
    const std::string target = std::filesystem::read_symlink(fd.path(), error).string();
    if (target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
  }
  std::vector<sockaddr_in> found;
  for (const bool six : {false, true}) {
    std::istringstream table(read_text("/proc/" + std::to_string(pid) + (six ? "/net/tcp6" : "/net/tcp")));
    std::string line;
    std::getline(table, line);
    while (std::getline(table, line)) {
      std::istringstream words(line);
      std::string number, local, remote, state, queue, timer, retransmits, uid, timeout, inode;
      words >> number >> local >> remote >> state >> queue >> timer >> retransmits >> uid >> timeout >> inode;
      if (state != "0A" || !inodes.contains(inode)) continue;
      sockaddr_in address{};
      address.sin_family = AF_INET;
      const auto colon = local.find(':');
      address.sin_addr.s_addr = six ? htonl(INADDR_LOOPBACK) : static_cast<in_addr_t>(std::stoul(local.substr(0, colon), nullptr, 16));
      address.sin_port = htons(static_cast<std::uint16_t>(std::stoul(local.substr(colon + 1), nullptr, 16)));
      found.push_back(address);
    }
  }
  return found;
}

}  // namespace troupe::test
