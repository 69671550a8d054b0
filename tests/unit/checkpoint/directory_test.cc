#include "models/checkpoint/directory.h"

#include "models/checkpoint/inspect.h"
#include "tests/unit/checkpoint/sample.h"

namespace troupe::checkpoint {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

std::vector<std::string> names(const std::string& folder) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    found.push_back(entry.path().filename().string());
  return found;
}

std::vector<std::int64_t> steps(const std::string& out) {
  std::vector<std::int64_t> found;
  const std::vector<CheckpointFolder> all = list_complete(out).value();
  for (const CheckpointFolder& folder : all) found.push_back(folder.step.value);
  return found;
}

// A folder below OUT/checkpoints, complete or not.
void make(const std::string& out, const std::string& name, bool complete) {
  const std::string folder = checkpoints_folder(out) + "/" + name;
  std::filesystem::create_directories(folder);
  put(folder + "/part", "x");
  if (complete) put(folder + "/COMPLETE", "x");
}

TEST(Directory, NamesFoldersByStep) {
  EXPECT_EQ(final_folder("out", StepId(200)), "out/checkpoints/step-00000200");
  EXPECT_EQ(writing_folder("out", StepId(200)), "out/checkpoints/.writing-step-00000200");
}

TEST(Directory, ListsCompleteOnesNewestFirst) {
  TestFolder out;
  for (const char* step : {"step-00000009", "step-00000100", "step-00000020", "step-100000000"})
    make(out.path(), step, true);
  make(out.path(), "step-00000300", false);
  make(out.path(), ".writing-step-00000400", true);
  make(out.path(), ".deleting-step-00000500", true);
  make(out.path(), "step-600", true);
  make(out.path(), "step-00000700.bak", true);
  make(out.path(), "best", true);
  EXPECT_THAT(steps(out.path()), ElementsAre(100000000, 100, 20, 9));
  EXPECT_EQ(newest_complete(out.path())->path, checkpoints_folder(out.path()) + "/step-100000000");
}

TEST(Directory, HoldsNoneWhereNothingIs) {
  TestFolder out;
  EXPECT_THAT(steps(out / "absent"), IsEmpty());
  EXPECT_TRUE(absl::IsNotFound(newest_complete(out.path()).status()));
}

TEST(Directory, RemovesLeftoversAndNothingElse) {
  TestFolder out;
  const Disk disk;
  make(out.path(), "step-00000100", true);
  make(out.path(), "step-00000300", false);
  make(out.path(), ".writing-step-00000400", true);
  make(out.path(), ".deleting-step-00000050", false);
  make(out.path(), "notes", false);
  EXPECT_EQ(remove_leftovers(disk, out.path()).value(), 3);
  EXPECT_THAT(names(checkpoints_folder(out.path())), UnorderedElementsAre("step-00000100", "notes"));
  EXPECT_EQ(remove_leftovers(disk, out / "absent").value(), 0);
}

TEST(Directory, PruneKeepsTheNewestOnes) {
  TestFolder out;
  const Disk disk;
  for (const char* step : {"step-00000001", "step-00000002", "step-00000003", "step-00000004"})
    make(out.path(), step, true);
  make(out.path(), "step-00000005", false);
  for (const int keep : {-1, 0, 4, 9}) EXPECT_EQ(prune(disk, out.path(), keep).value(), 0) << keep;
  EXPECT_EQ(prune(disk, out.path(), 2).value(), 2);
  EXPECT_THAT(steps(out.path()), ElementsAre(4, 3));
  EXPECT_EQ(prune(disk, out.path(), 1).value(), 1);
  EXPECT_THAT(names(checkpoints_folder(out.path())), UnorderedElementsAre("step-00000004", "step-00000005"));
}

TEST(Directory, PrunesOverWhatAKilledPruneLeft) {
  TestFolder out;
  const Disk disk;
  for (const char* step : {"step-00000001", "step-00000002"}) make(out.path(), step, true);
  make(out.path(), ".deleting-step-00000001", false);
  EXPECT_EQ(prune(disk, out.path(), 1).value(), 1);
  EXPECT_THAT(names(checkpoints_folder(out.path())), ElementsAre("step-00000002"));
}

TEST(Directory, AStepSavedAgainReplacesTheOlderOne) {
  for (const Where where : {Where::kInMemory, Where::kOnDisk}) {
    TestFolder out(where);
    const Disk disk;
    ASSERT_TRUE(save_sample(disk, out.path(), 100).ok());
    SampleTensors other(7);
    const auto again = save_checkpoint(disk, out.path(), sample_facts(100), other.sources());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE(verify(*again).ok());
    EXPECT_THAT(names(checkpoints_folder(out.path())), ElementsAre("step-00000100"));
    EXPECT_THAT(contents(*again + "/model-00000.safetensors"),
                testing::HasSubstr(std::string(reinterpret_cast<const char*>(other.norm.data()), 32)));
  }
}

}  // namespace
}  // namespace troupe::checkpoint
