#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace {

// Where the jobs of these tests say that they run: what those leave that are killed is not in the user's own folder. A death test's child has
// that of its parent.
class RuntimeFolder {
 public:
  RuntimeFolder() {
    if (std::getenv("TROUPE_RUNTIME_DIR") != nullptr) return;
    path_ = std::filesystem::temp_directory_path() / "troupe-tests-XXXXXX";
    if (mkdtemp(path_.data()) != nullptr) setenv("TROUPE_RUNTIME_DIR", path_.c_str(), 1);
  }
  ~RuntimeFolder() {
    if (std::error_code error; !path_.empty()) std::filesystem::remove_all(path_, error);
  }

 private:
  std::string path_;
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const RuntimeFolder runtime;
  return RUN_ALL_TESTS();
}
