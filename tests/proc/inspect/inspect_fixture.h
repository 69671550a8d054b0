// Jobs that are looked into, in a runtime folder of the test's own.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/tiny_job.h"
#include "tests/tool/tool_process.h"

namespace troupe::test {

class Inspect : public testing::Test {
 protected:
  Inspect() {
    std::filesystem::create_directory(runtime());
    std::filesystem::permissions(runtime(), std::filesystem::perms::owner_all);
    setenv("TROUPE_RUNTIME_DIR", runtime().c_str(), 1);
  }
  ~Inspect() override { setenv("TROUPE_RUNTIME_DIR", before_.c_str(), 1); }

  const std::string& folder() const { return folder_.path(); }
  std::string runtime() const { return folder() + "/runtime"; }
  Ended tool(const std::vector<std::string>& words) const { return run_tool(words, folder()); }
  // Of a command that gives some; an empty object where it failed.
  nlohmann::json json_of(const std::vector<std::string>& words) const {
    const Ended ended = tool(words);
    return ended.exit_code == 0 ? nlohmann::json::parse(ended.out, nullptr, false) : nlohmann::json::object();
  }
  nlohmann::json jobs() const { return json_of({"jobs", "--json"}).value("jobs", nlohmann::json::array()); }
  // So many processes can be asked.
  bool here(int processes) const {
    return wait_until([&] {
      int found = 0;
      for (const auto& job : jobs()) found += job.value("here", 0);
      return found == processes;
    }, std::chrono::seconds(30));
  }
  std::size_t files() const {
    const std::filesystem::directory_iterator all(runtime());
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }

 private:
  const std::string before_ = std::getenv("TROUPE_RUNTIME_DIR");  // test_main's
  TemporaryFolder folder_;
};

}  // namespace troupe::test
