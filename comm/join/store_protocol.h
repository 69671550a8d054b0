// What store and client say to each other, as STORE.md describes it. Only the store's own sources and their tests need it.
// Threads: any; pure. Errors: none here: whoever reads a frame refuses what exceeds these limits (store_door.h, store_board.h). Units: bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "comm/join/frame.h"
#include "comm/join/secret.h"

namespace troupe::comm::protocol {

inline constexpr std::string_view kMagic{"troupe/s", 8};
inline constexpr std::uint16_t kVersion = 3;

// The numbers travel: never reuse one.
enum Type : std::uint8_t {
  // client to store
  kHello = 1, kProof = 2, kSet = 3, kGet = 4, kAdd = 5, kBarrier = 6, kExchange = 7, kAbort = 8, kGoodbye = 9,
  // relay to store
  kEnter = 10, kForward = 11, kGone = 12,
  // store to client
  kChallenge = 64, kRefused = 65, kWelcome = 66, kAnswer = 67, kAddresses = 68, kAborted = 69,
  // store to relay
  kDeliver = 70,
};

// What a caller says it is.
enum class Role : std::uint8_t { kRank = 0, kRelay = 1 };
inline constexpr int kRankMost = 1 << 30;  // ranks and worlds are less

// How a member's connection ended.
enum class Parting : std::uint8_t { kClosed = 0, kNonsense = 1 };

// Where a frame's id stands, if it has one, in the whole frame with its length. Answers that many get alike are written once, without it.
inline constexpr std::size_t kLengthBytes = 4, kIdAt = 5;
inline bool has_id(std::uint8_t type) { return type == kAnswer || type == kAddresses; }
inline std::string with_id(std::string frame, std::uint32_t id) {
  for (std::size_t i = 0; i < 4; ++i) frame[kIdAt + i] = static_cast<char>(id >> 8 * i);
  return frame;
}

// Before a connection has proved itself its frames are this short, and it has this long.
inline constexpr std::size_t kStrangerFrameBytesMost = 512;
inline constexpr int kStrangersMost = 64;

inline constexpr std::size_t kBuildBytesMost = 128, kHostBytesMost = 128, kKeyBytesMost = 256, kReasonBytesMost = 16 << 10;
inline constexpr std::size_t kValueBytesMost = 512 << 10, kAddressBytesMost = 64 << 10;
inline constexpr std::size_t kRelayFrameBytesMost = 2 * kFrameBytesMost;  // a frame, and whom it is for
inline constexpr std::size_t kStoreBytesMost = 256 << 20;  // of all keys and values together

inline std::string store_proof(std::string_view secret, std::string_view hello, std::string_view nonce) {
  return proof_of(secret, std::string("troupe store proves ").append(hello).append(nonce));
}
inline std::string client_proof(std::string_view secret, std::string_view hello, std::string_view nonce) {
  return proof_of(secret, std::string("troupe client proves ").append(hello).append(nonce));
}

}  // namespace troupe::comm::protocol
