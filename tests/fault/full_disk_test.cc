// The disk fills up while a checkpoint is written: training goes on, the older checkpoint stays, the report says so. Only a last save
// that fails makes the run fail.
#include <sys/mount.h>
#include <gtest/gtest.h>

#include <cstring>

#include "models/checkpoint/directory.h"
#include "models/checkpoint/inspect.h"
#include "tests/fault/run.h"

namespace troupe::test {
namespace {

const std::vector<std::string> kFullDiskSettings{"--training.steps=8", "--checkpoint.interval=2", "--checkpoint.keep_latest_k=1", "--device.threads=1"};

// A file system of a few bytes mounted as OUT/checkpoints, so that the saves meet its end and metrics.jsonl does not.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& output) : path_(output + "/checkpoints") { std::filesystem::create_directories(path_); }
  ~SmallDisk() {
    if (mounted_) umount2(path_.c_str(), MNT_DETACH);
  }
  bool mount_bytes(std::int64_t bytes) {
    const std::string size = "size=" + std::to_string(bytes);
    mounted_ = mount("tmpfs", path_.c_str(), "tmpfs", mounted_ ? MS_REMOUNT : 0, size.c_str()) == 0;
    return mounted_;
  }

 private:
  const std::string path_;
  bool mounted_ = false;
};

std::int64_t bytes_below(const std::string& folder) {
  std::int64_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) bytes += static_cast<std::int64_t>((entry.file_size() + 4095) / 4096 * 4096);
  }
  return bytes;
}

bool may_mount(const TinyRun& run) {
  SmallDisk probe(run.output("probe"));
  return probe.mount_bytes(1 << 20);
}

TEST(FullDisk, TrainingGoesOnTheOldCheckpointStaysAndTheReportSaysSo) {
  const TinyRun run;
  if (!may_mount(run)) GTEST_SKIP() << "skipped because a small file system cannot be mounted here: " << std::strerror(errno);
  ASSERT_EQ(run_tool(run.train("whole", kFullDiskSettings), run.folder()).exit_code, 0);
  const std::int64_t checkpoint_bytes = bytes_below(run.output("whole") + "/checkpoints");

  // Room for one checkpoint and half of a second: the save of step 2 fits, the later ones do not.
  const std::string output = run.output("full");
  SmallDisk disk(output);
  ASSERT_TRUE(disk.mount_bytes(checkpoint_bytes * 3 / 2));
  const Ended ended = run_tool(run.train("full", kFullDiskSettings), run.folder());
  EXPECT_EQ(ended.exit_code, 1) << "the last save failed: " << ended.err;
  EXPECT_EQ(steps_of(output), steps_of(run.output("whole"))) << "training went on to the end";
  EXPECT_NE(ended.err.find(" was not saved, training goes on and the older checkpoint stays: write "), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("No space left"), std::string::npos) << ended.err;
  const auto newest = checkpoint::newest_complete(output);
  ASSERT_TRUE(newest.ok());
  EXPECT_EQ(newest->step.value, 2);
  const Status whole = checkpoint::verify(newest->path);
  EXPECT_TRUE(whole.ok()) << std::string(whole.message());
  EXPECT_FALSE(save_under_way(output)) << "what the failed save wrote still takes room";

  // With room again the same command goes on from there, to the same losses.
  ASSERT_TRUE(disk.mount_bytes(checkpoint_bytes * 4));
  const Ended again = run_tool(run.train("full", kFullDiskSettings), run.folder());
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(steps_of(output), steps_of(run.output("whole")));
  EXPECT_EQ(checkpoint::newest_complete(output)->step.value, 8);
}

// Somebody makes room while the run goes on: a save that failed in between is no failure of the run.
TEST(FullDisk, ASaveThatFailedInBetweenIsNoFailureOfTheRun) {
  const TinyRun run;
  if (!may_mount(run)) GTEST_SKIP() << "skipped because a small file system cannot be mounted here: " << std::strerror(errno);
  const std::string output = run.output("full");
  SmallDisk disk(output);
  ASSERT_TRUE(disk.mount_bytes(64 << 10));
  // Steps long enough that the disk can grow between the first failed save and the last one.
  ToolProcess process(run.train("full", {"--training.steps=8", "--checkpoint.interval=2", "--training.global_batch=64", "--device.threads=1"}), run.folder());
  ASSERT_TRUE(wait_until([&] { return process.err().find("was not saved") != std::string::npos || !process.running(); }));
  ASSERT_TRUE(process.running()) << process.err();
  ASSERT_TRUE(disk.mount_bytes(64 << 20));
  const Ended& ended = process.wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(checkpoint::newest_complete(output)->step.value, 8);
}

}  // namespace
}  // namespace troupe::test
