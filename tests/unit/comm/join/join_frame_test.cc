#include <gtest/gtest.h>

#include "comm/join/frame.h"
#include "comm/join/secret.h"
#include "runtime/base/rng.h"

namespace troupe::comm {
namespace {

TEST(JoinFrame, GivesBackWhatWasWritten) {
  FrameWriter writer(7);
  writer.u8(1).u16(0x1234).u32(0x89abcdef).i32(-2).i64(-3).text("hello").raw("xy");
  const std::string frame = std::move(writer).finish();
  EXPECT_EQ(frame.substr(0, 8), std::string("\x1f\0\0\0\x07\x01\x34\x12", 8));  // little-endian, the length without itself
  FrameReader reader(std::string_view(frame).substr(4));
  EXPECT_EQ(reader.type(), 7);
  EXPECT_EQ(reader.u8(), 1);
  EXPECT_EQ(reader.u16(), 0x1234);
  EXPECT_EQ(reader.u32(), 0x89abcdef);
  EXPECT_EQ(reader.i32(), -2);
  EXPECT_EQ(reader.i64(), -3);
  EXPECT_EQ(reader.text(), "hello");
  EXPECT_FALSE(reader.ended_well()) << "two bytes are left";
  EXPECT_EQ(reader.raw(2), "xy");
  EXPECT_TRUE(reader.ended_well());
  EXPECT_EQ(reader.u32(), 0u) << "beyond its end";
  EXPECT_FALSE(reader.ended_well());
}

TEST(JoinFrame, IsCutOutOfAStreamThatComesInAnyPieces) {
  std::string stream;
  for (int i = 0; i < 100; ++i)
    stream +=
        std::move(FrameWriter(static_cast<std::uint8_t>(i + 1)).text(std::string(static_cast<std::size_t>(i * 7), 'x'))).finish();
  const RandomStream random({.seed = 5});
  FrameSplitter splitter;
  int seen = 0;
  std::uint64_t draw = 0;
  for (std::size_t at = 0; at < stream.size();) {
    const std::size_t size = std::min<std::size_t>(1 + random.at(draw++) % 97, stream.size() - at);
    splitter.append(std::string_view(stream).substr(at, size));
    at += size;
    for (auto frame = splitter.next(); frame.ok() && *frame; frame = splitter.next())
      EXPECT_EQ(FrameReader(**frame).type(), ++seen);
  }
  EXPECT_EQ(seen, 100);
}

TEST(JoinFrame, TooLongAndEmptyOnesAreErrors) {
  for (const auto& length : {std::string("\0\0\0\0", 4), std::string("\x01\x00\x10\x00", 4), std::string("\xff\xff\xff\xff", 4)}) {
    FrameSplitter splitter;
    splitter.append(length);
    EXPECT_EQ(splitter.next().status().code(), absl::StatusCode::kInvalidArgument);
  }
  FrameSplitter allowed;
  allowed.append(std::string("\x00\x00\x10\x00", 4));
  EXPECT_TRUE(allowed.next().ok());
}

// RFC 4231, test case 2.
TEST(JoinSecret, ProofsAreHmacSha256) {
  std::string hex;
  for (const char c : proof_of("Jefe", "what do ya want for nothing?")) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += {kDigits[static_cast<unsigned char>(c) >> 4], kDigits[c & 15]};
  }
  EXPECT_EQ(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_TRUE(same_proof("abc", "abc"));
  EXPECT_FALSE(same_proof("abc", "abd"));
  EXPECT_FALSE(same_proof("abc", "ab"));
}

TEST(JoinSecret, SecretsAndBuilds) {
  EXPECT_EQ(make_secret().size(), 32u);
  EXPECT_NE(make_secret(), make_secret());
  EXPECT_EQ(program_build(), program_build());
  EXPECT_NE(program_build().find('+'), std::string::npos);
}

}  // namespace
}  // namespace troupe::comm
