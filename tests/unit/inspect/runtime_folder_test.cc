#include "actors/inspect/runtime_folder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "tests/support/tiny_job.h"

namespace troupe::actors {
namespace {

class RuntimeFolder : public testing::Test {
 protected:
  const std::string& folder() const { return folder_.path(); }
  std::string file(const char* extension) const { return folder() + "/0123abcd.0" + extension; }
  // As a process leaves its files that is killed.
  void leave_behind() const {
    for (const char* extension : {".json", ".sock", ".token"}) std::ofstream(file(extension)) << R"({"job": "0123abcd"})";
  }
  StatusOr<PostedCard> post() const { return PostedCard::post(folder(), {.job = "0123abcd"}, token_); }

  const std::string token_ = std::string(64, 'a');

 private:
  const test::TemporaryFolder folder_;
};

TEST_F(RuntimeFolder, WhatTheDeadHaveLeftIsRemoved) {
  leave_behind();
  EXPECT_TRUE(running_cards(folder()).empty());
  EXPECT_TRUE(std::filesystem::is_empty(folder()));
}

// A rank that is started again has the name of the one before, whose files may be being removed.
TEST_F(RuntimeFolder, WhoeverLooksLeavesANewLifesFilesAlone) {
  std::jthread looks([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) running_cards(folder());
  });
  int lost = 0;
  for (int life = 0; life < 1000 && lost == 0; ++life) {
    leave_behind();
    const auto posted = post();
    ASSERT_TRUE(posted.ok()) << posted.status();
    for (int look = 0; look < 3; ++look) {
      const auto token = read_token(file(".token"));
      lost += !token.ok() || *token != token_ || !std::filesystem::exists(file(".json"));
    }
  }
  looks.request_stop();
  looks.join();
  EXPECT_EQ(lost, 0);
  EXPECT_TRUE(running_cards(folder()).empty());
  EXPECT_TRUE(std::filesystem::is_empty(folder()));
}

// The end of the life before comes when the next has begun.
TEST_F(RuntimeFolder, ALifeThatEndsLeavesTheNextOnesFilesAlone) {
  auto first = post();
  ASSERT_TRUE(first.ok()) << first.status();
  std::optional<PostedCard> before(*std::move(first));
  const auto next = post();
  ASSERT_TRUE(next.ok()) << next.status();
  before.reset();
  EXPECT_EQ(running_cards(folder()).size(), 1u);
  EXPECT_TRUE(read_token(file(".token")).ok());
}

}  // namespace
}  // namespace troupe::actors
