// What store and client say to each other, as STORE.md describes it. Only store.cc, store_server.cc and their tests need it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "comm/join/secret.h"

namespace troupe::comm::protocol {

inline constexpr std::string_view kMagic{"troupe/s", 8};
inline constexpr std::uint16_t kVersion = 2;

// The numbers travel: never reuse one.
enum Type : std::uint8_t {
  // client to store
  kHello = 1, kProof = 2, kSet = 3, kGet = 4, kAdd = 5, kBarrier = 6, kExchange = 7, kAbort = 8, kGoodbye = 9,
  // store to client
  kChallenge = 64, kRefused = 65, kWelcome = 66, kAnswer = 67, kAddresses = 68, kAborted = 69,
};

// Before a connection has proved itself its frames are this short, and it has this long.
inline constexpr std::size_t kStrangerFrameBytesMost = 512;
inline constexpr int kStrangersMost = 64;

inline constexpr std::size_t kBuildBytesMost = 128, kKeyBytesMost = 256, kReasonBytesMost = 16 << 10;
inline constexpr std::size_t kValueBytesMost = 512 << 10, kAddressBytesMost = 64 << 10;
inline constexpr std::size_t kStoreBytesMost = 256 << 20;  // of all keys and values together

inline std::string store_proof(std::string_view secret, std::string_view hello, std::string_view nonce) {
  return proof_of(secret, std::string("troupe store proves ").append(hello).append(nonce));
}
inline std::string client_proof(std::string_view secret, std::string_view hello, std::string_view nonce) {
  return proof_of(secret, std::string("troupe client proves ").append(hello).append(nonce));
}

}  // namespace troupe::comm::protocol
