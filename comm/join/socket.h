// Sockets as the store and its clients need them: TCP, and names of this host's network namespace (abstract unix sockets), which no file
// is left of, whoever dies. Threads: any.
#pragma once

#include <string>

#include "comm/join/cancel.h"
#include "comm/join/store.h"

namespace troupe::comm {

// kUnavailable: "what: the error's text".
Status unreachable(const std::string& what, int error);

// Small frames go at once; a link that is cut without a word is noticed after about eight seconds.
void settle(int fd);

// A non-blocking listener; port 0 takes any free one. kUnavailable if it is taken, said with what to do.
StatusOr<int> listen_at(int port, bool loopback_only);
int port_of(int listener);
// kAlreadyExists if somebody listens there.
StatusOr<int> listen_at_name(const std::string& name);

// -1 if nobody waits to be accepted, or, a moment later, if the process has no descriptor left. `from`: the peer's address, or whose process
// it is.
int accept_one(int listener, std::string& from);

// Whether one of the hosts, separated by commas, is this one: its name, or one of its addresses. Looking up a name may take long.
bool any_is_here(const std::string& hosts);

// Tries the host's addresses in turn, each for at most two seconds. Looking up a name may take longer than the deadline. A host "@name" is
// whoever listens at that name; it has no port.
StatusOr<int> connect_to(const std::string& host, int port, Deadline deadline, const Cancel* cancel = nullptr);

// False when the deadline or the cancel came first. fd -1: waits for these alone.
bool wait_for(int fd, short events, Deadline deadline, const Cancel* cancel = nullptr);
int remaining_ms(Deadline deadline);

}  // namespace troupe::comm
