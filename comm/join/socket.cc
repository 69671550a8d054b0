#include "comm/join/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace troupe::comm {
namespace {

using namespace std::chrono_literals;

constexpr int kNoRoomWaits_ms = 20;
constexpr auto kOneAddressHas = 2s;      // to answer, before the next one is tried

// Connects to one resolved address.
StatusOr<int> connect_to(const addrinfo& address, const std::string& name, Deadline deadline, const Cancel* cancel) {
  const int fd = socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return unreachable("socket", errno);
  int error = connect(fd, address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    socklen_t size = sizeof error;
    if (!wait_for(fd, POLLOUT, deadline, cancel)) error = ETIMEDOUT;
    else getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error == 0) {
    settle(fd);
    return fd;
  }
  close(fd);
  return unreachable(name, error);
}

struct NameAddress {
  sockaddr_un address{};
  socklen_t size = 0;
};
// Its first byte is zero: no file.
StatusOr<NameAddress> address_of(const std::string& name) {
  NameAddress made;
  if (name.empty() || name.size() + 1 > sizeof made.address.sun_path)
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' is no name of a socket"));
  made.address.sun_family = AF_UNIX;
  std::memcpy(made.address.sun_path + 1, name.data(), name.size());
  made.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return made;
}

StatusOr<int> connect_to_name(const std::string& name) {
  TROUPE_ASSIGN_OR_RETURN(const NameAddress at, address_of(name));
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return unreachable("socket", errno);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&at.address), at.size) == 0) return fd;
  const int error = errno;
  close(fd);
  return unreachable(name, error);
}

std::string owner_of(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return "this host";
  return absl::StrCat("this host's user ", peer.uid);
}

std::string name_of(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes = address.ss_family == AF_INET
                          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(address).sin_addr)
                          : static_cast<const void*>(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
  return inet_ntop(address.ss_family, bytes, text.data(), text.size()) ? text.data() : "somewhere";
}

}  // namespace

Status unreachable(const std::string& what, int error) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(error)));
}

int remaining_ms(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 3600 * 1000));
}

bool wait_for(int fd, short events, Deadline deadline, const Cancel* cancel) {
  while (true) {
    std::array<pollfd, 2> waited{{{fd, events, 0}, {cancel ? cancel->descriptor() : -1, POLLIN, 0}}};
    const int timeout = remaining_ms(deadline);
    const int ready = poll(waited.data(), waited.size(), timeout);
    if (ready > 0) return waited[1].revents == 0;
    if (ready < 0 && errno != EINTR) return false;
    if (ready == 0 && remaining_ms(deadline) == 0) return false;
  }
}

void settle(int fd) {
  const int on = 1, idle_s = 3, between_s = 1, probes = 5, unacknowledged_ms = 8000;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof between_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
}

StatusOr<int> listen_at(int port, bool loopback_only) {
  const int families[] = {loopback_only ? AF_INET : AF_INET6, AF_INET};
  int error = 0;
  for (const int family : families) {
    const int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      error = errno;
      continue;
    }
    const int on = 1, off = 0;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    sockaddr_in6 any6{};
    any6.sin6_family = AF_INET6;
    any6.sin6_port = htons(static_cast<std::uint16_t>(port));
    sockaddr_in any4{};
    any4.sin_family = AF_INET;
    any4.sin_port = any6.sin6_port;
    any4.sin_addr.s_addr = htonl(loopback_only ? INADDR_LOOPBACK : INADDR_ANY);
    const auto* address = family == AF_INET6 ? reinterpret_cast<const sockaddr*>(&any6) : reinterpret_cast<const sockaddr*>(&any4);
    if (bind(fd, address, family == AF_INET6 ? sizeof any6 : sizeof any4) == 0 && listen(fd, SOMAXCONN) == 0) return fd;
    error = errno;
    close(fd);
    if (error == EADDRINUSE) break;
  }
  return absl::UnavailableError(absl::StrCat("the store cannot listen at port ", port, " (", std::strerror(error),
                                             "): set TROUPE_STORE=host:port (or MASTER_PORT) to use another"));
}

StatusOr<int> listen_at_name(const std::string& name) {
  TROUPE_ASSIGN_OR_RETURN(const NameAddress at, address_of(name));
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return unreachable("socket", errno);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&at.address), at.size) == 0 && listen(fd, SOMAXCONN) == 0) return fd;
  const int error = errno;
  close(fd);
  if (error == EADDRINUSE) return absl::AlreadyExistsError(absl::StrCat("somebody listens at @", name));
  return unreachable(name, error);
}

int port_of(int listener) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  getsockname(listener, reinterpret_cast<sockaddr*>(&bound), &size);
  const auto port = bound.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(bound).sin_port
                                               : reinterpret_cast<const sockaddr_in6&>(bound).sin6_port;
  return ntohs(port);
}

int accept_one(int listener, std::string& from) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  const int fd = accept4(listener, reinterpret_cast<sockaddr*>(&peer), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd >= 0) from = peer.ss_family == AF_UNIX ? owner_of(fd) : name_of(peer);
  // Who waits stays in the queue, and the listener readable: without this its thread would spin until somebody closes a descriptor.
  if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) poll(nullptr, 0, kNoRoomWaits_ms);
  return fd;
}

bool any_is_here(const std::string& hosts) {
  std::array<char, 256> own{};
  (void)gethostname(own.data(), own.size() - 1);
  for (const std::string& host : std::vector<std::string>(absl::StrSplit(hosts, ','))) {
    if (host == own.data()) return true;
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (getaddrinfo(host.c_str(), "0", &hints, &found) != 0) continue;
    bool here = false;
    for (const addrinfo* at = found; at != nullptr && !here; at = at->ai_next) {
      const int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
      here = fd >= 0 && bind(fd, at->ai_addr, at->ai_addrlen) == 0;  // only to an address of our own
      if (fd >= 0) close(fd);
    }
    freeaddrinfo(found);
    if (here) return true;
  }
  return false;
}

StatusOr<int> connect_to(const std::string& host, int port, Deadline deadline, const Cancel* cancel) {
  if (host.starts_with('@')) return connect_to_name(host.substr(1));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); error != 0) {
    return absl::UnavailableError(absl::StrCat(host, ": ", gai_strerror(error)));
  }
  StatusOr<int> fd = absl::UnavailableError(host);
  for (const addrinfo* at = found; at != nullptr && !fd.ok(); at = at->ai_next) {
    fd = connect_to(*at, host, std::min(deadline, after(kOneAddressHas)), cancel);
  }
  freeaddrinfo(found);
  return fd;
}

}  // namespace troupe::comm
