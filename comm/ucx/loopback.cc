#include "comm/ucx/loopback.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>

namespace troupe::comm {

std::string loopback_device() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  std::string name;
  for (const ifaddrs* at = all; at != nullptr && name.empty(); at = at->ifa_next) {
    const bool up = (at->ifa_flags & IFF_UP) != 0 && (at->ifa_flags & IFF_LOOPBACK) != 0;
    if (up && at->ifa_addr != nullptr && at->ifa_addr->sa_family == AF_INET) name = at->ifa_name;
  }
  freeifaddrs(all);
  return name;
}

}  // namespace troupe::comm
