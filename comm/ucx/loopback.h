// The interface of a machine's talk with itself, for UCX's setting NET_DEVICES. Threads: any. Errors: none.
#pragma once

#include <string>

namespace troupe::comm {

// "lo"; empty where there is none that is up.
std::string loopback_device();

}  // namespace troupe::comm
