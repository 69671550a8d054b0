// A job of very many actors that all are stuck: each waits for credit of the next, which keeps the one there was, two are in handlers that do not return.
// Threads: the caller's, until `socket` is closed.
#pragma once

#include <string>

namespace troupe::bench {

// Says "ready" on the socket once all wait; found by the inspector as `job`.
void serve_stuck_job(int socket, int actors, const std::string& job);

}  // namespace troupe::bench
