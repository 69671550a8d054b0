// What strangers do not have: the job's secret, fresh nonces, and proofs that a process knows the secret without saying it.
// Through OpenSSL's libcrypto, which no other file sees. Threads: any.
#pragma once

#include <string>
#include <string_view>

namespace troupe::comm {

inline constexpr std::size_t kNonceBytes = 32;

std::string random_bytes(std::size_t count);
// 128 random bits in hexadecimal digits, for one job.
std::string make_secret();

// HMAC-SHA256 (RFC 2104) of `what` under the secret: 32 bytes.
std::string proof_of(std::string_view secret, std::string_view what);
// In a time that does not depend on where they differ.
bool same_proof(std::string_view a, std::string_view b);

// What a process runs, "0.1.0+1f2e3d4c5b6a": the version, and the build id that the linker left in the program, or else a hash of
// its file. Two programs with the same text were built from the same bytes.
std::string program_build();

}  // namespace troupe::comm
