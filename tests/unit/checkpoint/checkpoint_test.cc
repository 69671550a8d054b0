// Whole saves: killed, failed, filled up; and what inspect says of the rest.
#include <signal.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>

#include "models/checkpoint/directory.h"
#include "models/checkpoint/inspect.h"
#include "models/checkpoint/reader.h"
#include "models/checkpoint/run_lock.h"
#include "tests/unit/checkpoint/sample.h"

namespace troupe::checkpoint {
namespace {

using testing::HasSubstr;
using Kind = DiskOperation::Kind;

constexpr std::int64_t kSmallChunk = 100;  // several writes per file

// Runs `body` in a child; returns waitpid's status.
int in_child(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

bool holds_sample(const std::string& folder, std::int64_t step) {
  const auto reader = CheckpointReader::open(folder);
  const SampleTensors want(step);
  std::vector<float> got(48);
  return reader.ok() && reader->manifest().facts.step == StepId(step) &&
         reader
             ->load({"model.layers.0.mlp.up_proj.weight", TensorKind::kAdamV, ElementType::kF32, {6, 8}},
                    whole({6, 8}), std::as_writable_bytes(std::span(got)))
             .ok() &&
         got == want.second;
}

bool has_leftovers(const std::string& out) {
  for (const auto& entry : std::filesystem::directory_iterator(checkpoints_folder(out))) {
    if (entry.path().filename().string().starts_with(".")) return true;
  }
  return false;
}

// CASES T13. The child dies by SIGKILL just before its n-th operation, for every n of a save, of a save over
// the same step, and of the prune that follows.
TEST(Checkpoint, KeepsTheLastCompleteOneWhenKilledDuringSave) {
  for (const std::int64_t next : {200, 100}) {
    bool finished = false;
    int kills = 0;
    for (; !finished; ++kills) {
      TestFolder out;
      ASSERT_TRUE(save_sample(Disk(), out.path(), 90).ok());
      ASSERT_TRUE(save_sample(Disk(), out.path(), 100).ok());
      const int status = in_child([&] {
        int left = kills;
        const Disk disk(
            [&left](const DiskOperation&) {
              if (left-- == 0) raise(SIGKILL);
              return ok();
            },
            kSmallChunk);
        if (!save_sample(disk, out.path(), next).ok() || !prune(disk, out.path(), 1).ok()) _exit(1);
      });
      finished = WIFEXITED(status);
      ASSERT_TRUE(finished ? WEXITSTATUS(status) == 0 : WTERMSIG(status) == SIGKILL) << status;
      const auto newest = newest_complete(out.path());
      ASSERT_TRUE(newest.ok()) << newest.status();
      ASSERT_TRUE(newest->step == StepId(100) || newest->step == StepId(next));
      ASSERT_TRUE(holds_sample(newest->path, newest->step.value)) << "killed before operation " << kills;
      ASSERT_TRUE(verify(newest->path).ok()) << verify(newest->path);
      EXPECT_TRUE(!finished || newest->step == StepId(next));
      // the next run cleans up and saves the same step
      ASSERT_TRUE(remove_leftovers(Disk(), out.path()).ok());
      ASSERT_FALSE(has_leftovers(out.path()));
      ASSERT_TRUE(verify(newest->path).ok()) << verify(newest->path);
      ASSERT_TRUE(save_sample(Disk(), out.path(), next).ok());
      ASSERT_TRUE(verify(newest_complete(out.path())->path).ok());
    }
    EXPECT_GT(kills, 30);
  }
}

TEST(Checkpoint, AnyFailedOperationLeavesOlderOnesAndNoRest) {
  bool finished = false;
  for (int failing = 0; !finished; ++failing) {
    TestFolder out;
    ASSERT_TRUE(save_sample(Disk(), out.path(), 100).ok());
    int left = failing;
    const Disk disk(
        [&](const DiskOperation&) { return left-- == 0 ? absl::ResourceExhaustedError("full") : ok(); },
        kSmallChunk);
    const Status status = save_sample(disk, out.path(), 200).status();
    finished = left >= 0;
    EXPECT_EQ(status.ok(), finished) << status;
    EXPECT_TRUE(finished || absl::IsResourceExhausted(status)) << status;
    EXPECT_FALSE(has_leftovers(out.path())) << failing;
    EXPECT_TRUE(verify(final_folder(out.path(), StepId(100))).ok());
    EXPECT_EQ(newest_complete(out.path())->step, StepId(finished ? 200 : 100));
  }
}

TEST(Checkpoint, FullDiskLeavesOlderOnesAndNoRest) {
  TestFolder parent;
  const std::string out = parent / "disk";
  std::filesystem::create_directory(out);
  if (mount("tmpfs", out.c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "cannot mount a tmpfs to fill: " << std::strerror(errno);
  }
  const std::vector<float> values = counted(100'000, 0);  // 400 kB: two fit, three do not
  const TensorSource source{"w",       TensorKind::kParameter, ElementType::kF32,
                            {100'000}, whole({100'000}),       std::as_bytes(std::span(values))};
  std::vector<Status> saved;
  for (const std::int64_t step : {1, 2, 3}) {
    saved.push_back(
        save_checkpoint(Disk({}, 64 << 10), out, sample_facts(step), std::span(&source, 1)).status());
  }
  EXPECT_TRUE(saved[0].ok() && saved[1].ok()) << saved[0] << saved[1];
  EXPECT_TRUE(absl::IsResourceExhausted(saved[2])) << saved[2];
  EXPECT_THAT(text(saved[2]), HasSubstr(writing_folder(out, StepId(3))));
  EXPECT_FALSE(has_leftovers(out));
  EXPECT_EQ(list_complete(out)->size(), 2u);
  for (const std::int64_t step : {1, 2}) EXPECT_TRUE(verify(final_folder(out, StepId(step))).ok());
  // room made: the next save goes through
  EXPECT_EQ(prune(Disk(), out, 1).value(), 1);
  EXPECT_TRUE(save_checkpoint(Disk(), out, sample_facts(3), std::span(&source, 1)).ok());
  EXPECT_EQ(umount(out.c_str()), 0);
}

// What a power failure keeps is what was synced, so the order is the promise.
TEST(Checkpoint, SyncsEverythingBeforeTheMarkerAndTheFolderBeforeTheRename) {
  TestFolder out;
  ASSERT_TRUE(save_sample(Disk(), out.path(), 100).ok());
  std::vector<std::string> log;
  const Disk disk([&](const DiskOperation& operation) {
    const std::string name = std::filesystem::path(operation.path).filename().string();
    switch (operation.kind) {
      case Kind::kCreateFolder:
        log.push_back("folder " + name);
        break;
      case Kind::kCreateFile:
        log.push_back("create " + name);
        break;
      case Kind::kSyncFile:
        log.push_back("sync " + name);
        break;
      case Kind::kSyncFolder:
        log.push_back("sync " + name);
        break;
      case Kind::kRename:
        log.push_back("rename to " + name);
        break;
      case Kind::kWrite:
      case Kind::kRemove:
        break;
    }
    return ok();
  });
  ASSERT_TRUE(save_sample(disk, out.path(), 200).ok());
  EXPECT_THAT(
      log, testing::ElementsAre("folder .writing-step-00000200", "create model-00000.safetensors",
                                "sync model-00000.safetensors", "create optimizer-00000.safetensors",
                                "sync optimizer-00000.safetensors", "create manifest.json",
                                "sync manifest.json", "sync .writing-step-00000200", "create COMPLETE",
                                "sync COMPLETE", "sync .writing-step-00000200", "rename to step-00000200"));
}

TEST(Checkpoint, TellsItsProgress) {  // CASES T17
  TestFolder out;
  std::int64_t written = 0;
  const Disk disk([&](const DiskOperation& operation) {
    written += operation.bytes;
    return ok();
  });
  const std::string folder = save_sample(disk, out.path(), 1).value();
  std::int64_t on_disk = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    on_disk += static_cast<std::int64_t>(entry.file_size());
  }
  EXPECT_EQ(written, on_disk);
}

TEST(Checkpoint, RefusesSourcesThatDoNotTileTheirTensors) {
  TestFolder out;
  const std::vector<float> values = counted(16, 0);
  const auto part = [&](std::int64_t offset, std::int64_t size, std::int64_t bytes) {
    return TensorSource{"w",
                        TensorKind::kAdamM,
                        ElementType::kF32,
                        {4, 4},
                        {{0, offset}, {4, size}},
                        std::as_bytes(std::span(values)).first(static_cast<std::size_t>(bytes))};
  };
  const auto refusal = [&](const std::vector<TensorSource>& sources) {
    const Status status = save_checkpoint(Disk(), out.path(), sample_facts(1), sources).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return text(status);
  };
  EXPECT_THAT(refusal({part(0, 2, 32)}), HasSubstr("\"w\" (adam_m): slices hold 8 of 16 elements"));
  EXPECT_THAT(refusal({part(0, 2, 32), part(1, 3, 48)}), HasSubstr("overlap"));
  EXPECT_THAT(refusal({part(0, 2, 32), part(0, 2, 32)}), HasSubstr("w"));
  EXPECT_THAT(refusal({part(0, 2, 31)}), HasSubstr("takes 32 bytes, given 31"));
  EXPECT_THAT(refusal({part(2, 3, 48)}), HasSubstr("lies outside [4, 4]"));
  TensorSource other = part(2, 2, 32);
  other.shape = {4, 5};
  EXPECT_THAT(refusal({part(0, 2, 32), other}), HasSubstr("one slice says F32 [4, 4], another F32 [4, 5]"));
  EXPECT_TRUE(list_complete(out.path())->empty());
  EXPECT_FALSE(has_leftovers(out.path()));
}

TEST(Inspect, FindsAFlippedByte) {
  TestFolder out;
  const std::string folder = save_sample(Disk(), out.path(), 1).value();
  ASSERT_TRUE(verify(folder).ok()) << verify(folder);
  for (const char* name :
       {"model-00000.safetensors", "optimizer-00000.safetensors", "manifest.json", "COMPLETE"}) {
    const std::string path = folder + "/" + name, good = contents(path);
    for (std::size_t at = 0; at < good.size(); at += 13) {
      std::string flipped = good;
      flipped[at] = static_cast<char>(flipped[at] ^ 4);
      put(path, flipped);
      const Status status = verify(folder);
      // a flipped version of the manifest may read as a newer one
      EXPECT_TRUE(absl::IsDataLoss(status) || absl::IsFailedPrecondition(status))
          << name << " " << at << " " << status;
      EXPECT_THAT(text(status), HasSubstr(std::string(name) == "COMPLETE" ? folder : path));
    }
    put(path, good);
  }
  EXPECT_TRUE(verify(folder).ok());
}

TEST(Inspect, DescribesWhatIsThere) {
  TestFolder out;
  const std::string text = describe(save_sample(Disk(), out.path(), 7).value()).value();
  for (const char* part :
       {"step         7\n", "samples      224\n", "loss_average 2.75\n", "skipped_steps 3\n",
        "model-00000.safetensors", "tensors 4\n", "model.norm.weight", "adam_v    F32   [6, 8]"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_TRUE(absl::IsNotFound(describe(out / "absent").status()));
}

// CASES T17. Four writers with two files each; as many readers, fewer, more.
TEST(Inspect, OfSeveralThatVerifyTogetherExactlyOneFindsAnAlteredByte) {
  TestFolder out;
  const Disk disk;
  const std::vector<float> values = counted(64, 1);
  auto save = CheckpointSave::begin(disk, out.path(), StepId(1));
  ASSERT_TRUE(save.ok()) << save.status();
  for (int writer = 0; writer < 4; ++writer) {
    std::vector<TensorSource> sources;
    for (const TensorKind kind : {TensorKind::kParameter, TensorKind::kAdamM}) {
      sources.push_back({"w", kind, ElementType::kF32, {4, 64}, {{writer, 0}, {1, 64}}, std::as_bytes(std::span(values))});
    }
    save->add(write_shard(disk, save->folder(), writer, sources).value());
  }
  const auto folder = save->commit(sample_facts(1));
  ASSERT_TRUE(folder.ok()) << folder.status();
  for (const int parts : {1, 2, 3, 4, 5, 16}) {
    for (int part = 0; part < parts; ++part) EXPECT_TRUE(verify_part(*folder, part, parts).ok());
    for (int writer = 0; writer < 4; ++writer) {
      for (const char* kind : {"model", "optimizer"}) {
        const std::string file = *folder + "/" + kind + "-0000" + std::to_string(writer) + ".safetensors", whole_file = contents(file);
        std::string altered = whole_file;
        altered.back() = static_cast<char>(altered.back() ^ 1);
        put(file, altered);
        std::vector<int> found_by;
        for (int part = 0; part < parts; ++part) {
          const Status status = verify_part(*folder, part, parts);
          if (status.ok()) continue;
          found_by.push_back(part);
          EXPECT_THAT(text(status), HasSubstr(file + ": altered"));
        }
        ASSERT_EQ(found_by.size(), 1u) << parts << " parts, " << file;
        if (parts == 4) {
          EXPECT_EQ(found_by[0], writer);
        }
        put(file, whole_file);
      }
    }
  }
}

TEST(RunLock, IsFoundByItsTokenAlone) {
  TestFolder out;
  auto lock = RunLock::take(out / "run");
  ASSERT_TRUE(lock.ok()) << lock.status();
  constexpr std::chrono::seconds patience{10};
  EXPECT_TRUE(find_run_lock(out / "run", lock->token(), patience).ok());
  const std::string token = lock->token();
  { const RunLock gone = *std::move(lock); }
  const auto next = RunLock::take(out / "run");
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_NE(next->token(), token);
  const Status other = find_run_lock(out / "run", token, {});
  EXPECT_TRUE(absl::IsFailedPrecondition(other));
  EXPECT_THAT(text(other), HasSubstr(out / "run/.lock is of another run (pid " + std::to_string(getpid()) + " on "));
  const Status none = find_run_lock(out / "absent", token, {});
  EXPECT_TRUE(absl::IsFailedPrecondition(none));
  EXPECT_THAT(text(none), HasSubstr(out / "absent/.lock"));
}

// As on a network file system that shows it late: after the folder was opened twice, so looked into once in vain.
TEST(RunLock, IsLookedForAgain) {
  TestFolder out;
  const int opened = inotify_init1(IN_CLOEXEC);
  ASSERT_GE(inotify_add_watch(opened, out.path().c_str(), IN_OPEN), 0);
  auto found = std::async(std::launch::async, [&] { return find_run_lock(out.path(), "0123", std::chrono::seconds(20)); });
  for (int looks = 0; looks < 2; ++looks) {
    std::array<char, sizeof(inotify_event)> event{};  // of the folder itself: no name follows
    ASSERT_EQ(read(opened, event.data(), event.size()), static_cast<ssize_t>(event.size()));
  }
  close(opened);
  put(out / ".lock", "pid 1 on elsewhere\ntoken 0123\n");
  EXPECT_TRUE(found.get().ok());
}

TEST(RunLock, RefusesASecondRunNamingTheFirst) {
  TestFolder out;
  auto first = RunLock::take(out / "run");
  ASSERT_TRUE(first.ok()) << first.status();
  const Status second = RunLock::take(out / "run").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(second));
  EXPECT_THAT(text(second), HasSubstr("in use by pid " + std::to_string(getpid()) + " on "));
  EXPECT_TRUE(RunLock::take(out / "other").ok());
  { const RunLock gone = *std::move(first); }
  EXPECT_TRUE(RunLock::take(out / "run").ok());
}

TEST(RunLock, DiesWithItsProcess) {
  TestFolder out;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto lock = RunLock::take(out.path());
    (void)!write(ready[1], lock.ok() ? "y" : "n", 1);
    pause();
    _exit(0);
  }
  char answer = 0;
  ASSERT_EQ(read(ready[0], &answer, 1), 1);
  ASSERT_EQ(answer, 'y');
  EXPECT_THAT(text(RunLock::take(out.path()).status()), HasSubstr("pid " + std::to_string(child)));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  EXPECT_TRUE(RunLock::take(out.path()).ok());
}

}  // namespace
}  // namespace troupe::checkpoint
