// Saving, loading, keeping and deleting checkpoints when nothing goes wrong, and damage to what lies on disk.
#include "TestRuns.h"

#include <cmath>

using namespace sluice;
using namespace sluice::test;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> namesIn(const std::string &folder) {
  return *realFileSystem().list(folder);
}

TEST(Checkpoint, SavesAndLoads) {
  TemporaryFolder run;
  CheckpointStore store(run.path());
  StatusOr<SaveReport> report = store.save(1000, TinyRun(1000).contents());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->path, run.path("checkpoints/step-00001000"));
  EXPECT_FALSE(report->alreadySaved);
  EXPECT_TRUE(report->warnings.empty());
  EXPECT_EQ(namesIn(report->path),
            (std::vector<std::string>{"config.resolved.yaml", "manifest.json", "model.safetensors",
                                      "optimizer.safetensors", "state.json"}));
  EXPECT_EQ(fs::read_symlink(run.path("latest")), "checkpoints/step-00001000");
  expectNewest(run.path(), 1000);
  EXPECT_EQ(*readFile(run.path("latest/config.resolved.yaml")), "seed: 1\n");
}

TEST(Checkpoint, EqualContentsGiveEqualFiles) {
  TemporaryFolder a, b;
  for (const TemporaryFolder *run : {&a, &b}) {
    CheckpointStore store(run->path());
    saveStep(store, 7);
  }
  for (const std::string &name : namesIn(a.path("latest")))
    EXPECT_EQ(*readFile(a.path("latest/" + name)), *readFile(b.path("latest/" + name))) << name;
}

TEST(Checkpoint, AnEmptyRunHasNone) {
  TemporaryFolder run;
  StatusOr<NewestCheckpoint> newest = CheckpointStore(run.path()).newestValid();
  ASSERT_TRUE(newest.ok()) << newest.status();
  EXPECT_FALSE(newest->checkpoint.has_value());
  EXPECT_TRUE(newest->rejected.empty());
}

TEST(Checkpoint, KeepsTheNewestAndTheMarked) {
  TemporaryFolder run;
  CheckpointStore store(run.path());
  saveStep(store, 1);
  ASSERT_TRUE(store.mark("best", 1).ok());
  for (uint64_t step = 2; step <= 5; ++step)
    saveStep(store, step);
  EXPECT_EQ(namesIn(run.path("checkpoints")),
            (std::vector<std::string>{"step-00000001", "step-00000003", "step-00000004", "step-00000005"}));
  ASSERT_TRUE(store.mark("best", 4).ok());
  EXPECT_EQ(fs::read_symlink(run.path("best")), "checkpoints/step-00000004");
  StatusOr<SaveReport> report = store.save(6, TinyRun(6).contents());
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->deleted, (std::vector<std::string>{"step-00000003", "step-00000001"}));
}

TEST(Checkpoint, ADamagedOneDoesNotTakeTheKeptPlaceOfAGoodOne) {
  TemporaryFolder run;
  CheckpointOptions two;
  two.keep = 2;
  CheckpointStore keepAll(run.path(), {100}), store(run.path(), two);
  saveStep(keepAll, 1);
  saveStep(keepAll, 2);
  fs::remove(run.path("checkpoints/step-00000002/model.safetensors"));
  saveStep(store, 3);
  EXPECT_TRUE(fs::exists(run.path("checkpoints/step-00000001/manifest.json")));
}

TEST(Checkpoint, ForeignFoldersAndLaterStepsAreLeftAlone) {
  TemporaryFolder run;
  CheckpointOptions one;
  one.keep = 1;
  CheckpointStore store(run.path(), one);
  saveStep(store, 9);
  for (const char *name : {"step-abc", "step-1", "notes", "step-00000000000000000000000001"})
    fs::create_directories(run.path(std::string("checkpoints/") + name));
  fs::remove(run.path("checkpoints/step-00000009/state.json"));
  saveStep(store, 5);
  EXPECT_EQ(namesIn(run.path("checkpoints")).size(), 6u);
  expectNewest(run.path(), 5);
}

TEST(Checkpoint, AStepIsNotSavedTwiceButADamagedOneIsReplaced) {
  TemporaryFolder run;
  CheckpointStore store(run.path());
  saveStep(store, 4);
  StatusOr<SaveReport> again = store.save(4, TinyRun(4).contents());
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->alreadySaved);
  ASSERT_TRUE(writeFile(run.path("checkpoints/step-00000004/state.json"), "{}").ok());
  again = store.save(4, TinyRun(4).contents());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE(again->alreadySaved);
  expectNewest(run.path(), 4);
  EXPECT_EQ(namesIn(run.path("checkpoints")), (std::vector<std::string>{"step-00000004"}));
}

TEST(Checkpoint, FallsBackAndSaysWhy) {
  TemporaryFolder run;
  CheckpointStore store(run.path());
  for (uint64_t step : {1, 2, 3})
    saveStep(store, step);
  fs::remove(run.path("checkpoints/step-00000003/manifest.json"));
  fs::resize_file(run.path("checkpoints/step-00000002/model.safetensors"), 10);
  StatusOr<NewestCheckpoint> newest = store.newestValid();
  ASSERT_TRUE(newest.ok());
  ASSERT_TRUE(newest->checkpoint.has_value());
  EXPECT_EQ(newest->checkpoint->step, 1u);
  ASSERT_EQ(newest->rejected.size(), 2u);
  EXPECT_EQ(newest->rejected[0].name, "step-00000003");
  EXPECT_NE(newest->rejected[0].reason.find("manifest.json"), std::string::npos);
  EXPECT_NE(newest->rejected[1].reason.find("model.safetensors"), std::string::npos)
      << newest->rejected[1].reason;
}

TEST(Checkpoint, AFolderUnderAnotherStepsNameIsRejected) {
  TemporaryFolder run;
  CheckpointStore store(run.path());
  saveStep(store, 1);
  fs::rename(run.path("checkpoints/step-00000001"), run.path("checkpoints/step-00000002"));
  StatusOr<NewestCheckpoint> newest = store.newestValid();
  ASSERT_TRUE(newest.ok());
  EXPECT_FALSE(newest->checkpoint.has_value());
  ASSERT_EQ(newest->rejected.size(), 1u);
}

TEST(Checkpoint, AnyFlippedByteAndAnyTruncationIsDetected) {
  TemporaryFolder run;
  CheckpointStore store(run.path());
  saveStep(store, 3);
  const std::string folder = run.path("checkpoints/step-00000003");
  for (const std::string &name : namesIn(folder)) {
    const std::string path = folder + "/" + name;
    const std::string good = *readFile(path);
    ASSERT_FALSE(good.empty());
    for (size_t i = 0; i < good.size(); ++i) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
      ASSERT_TRUE(writeFile(path, bad).ok());
      EXPECT_FALSE(Checkpoint::load(folder).ok()) << name << " byte " << i;
      ASSERT_TRUE(writeFile(path, std::string_view(good).substr(0, i)).ok());
      EXPECT_FALSE(Checkpoint::load(folder).ok()) << name << " cut to " << i;
    }
    ASSERT_TRUE(writeFile(path, good + "\n").ok());
    EXPECT_FALSE(Checkpoint::load(folder).ok()) << name << " with a byte more";
    fs::remove(path);
    EXPECT_FALSE(Checkpoint::load(folder).ok()) << name << " missing";
    ASSERT_TRUE(writeFile(path, good).ok());
    ASSERT_TRUE(Checkpoint::load(folder).ok());
  }
}

TEST(Checkpoint, WhatCannotBeReadBackIsNotWritten) {
  TemporaryFolder run;
  CheckpointStore store(run.path());
  const TinyRun tiny(1);
  CheckpointContents contents = tiny.contents();
  contents.state["best"]["loss"] = INFINITY;
  Status status = store.save(1, contents).status();
  EXPECT_TRUE(mentions(status, "/best/loss")) << status;
  for (const char *name : {"manifest.json", "state.json", "../x", "a/b"}) {
    contents = tiny.contents();
    contents.files.emplace_back(name, "x");
    EXPECT_FALSE(store.save(1, contents).ok()) << name;
  }
  EXPECT_TRUE(namesIn(run.path("checkpoints")).empty());
}

class SmallDisk : public FileSystem {
public:
  StatusOr<uint64_t> freeBytes(const std::string &) override { return 1000; }
};

TEST(Checkpoint, TooLittleSpaceIsSaidBeforeAnythingIsWritten) {
  TemporaryFolder run;
  SmallDisk disk;
  CheckpointStore store(run.path(), {}, disk);
  Status status = store.save(1, TinyRun(1).contents()).status();
  EXPECT_TRUE(mentions(status, "found 1000")) << status;
  EXPECT_EQ(exitCode(status), ExitCode::Failure);
  EXPECT_TRUE(namesIn(run.path("checkpoints")).empty());
}

class ThreeBytesAtATime : public FileSystem {
public:
  StatusOr<size_t> write(int file, const void *bytes, size_t size, const std::string &path) override {
    return FileSystem::write(file, bytes, std::min<size_t>(size, 3), path);
  }
};

TEST(Checkpoint, ShortWritesAreContinued) {
  TemporaryFolder run;
  ThreeBytesAtATime disk;
  CheckpointStore store(run.path(), {}, disk);
  saveStep(store, 2);
  expectNewest(run.path(), 2);
}

/// Records what a crash of the machine would care about.
class RecordingFileSystem : public FileSystem {
public:
  std::vector<std::string> log; // "write PATH", "sync PATH", "rename PATH" (the new name), "remove PATH"
  StatusOr<size_t> write(int file, const void *bytes, size_t size, const std::string &path) override {
    log.push_back("write " + path);
    return FileSystem::write(file, bytes, size, path);
  }
  Status sync(int file, const std::string &path) override {
    log.push_back("sync " + path);
    return FileSystem::sync(file, path);
  }
  Status rename(const std::string &from, const std::string &to) override {
    log.push_back("rename " + to);
    return FileSystem::rename(from, to);
  }
  Status removeFile(const std::string &path) override {
    Status status = FileSystem::removeFile(path);
    if (status.ok())
      log.push_back("remove " + path);
    return status;
  }
  size_t last(const std::string &entry, size_t before) const {
    while (before > 0)
      if (log[--before].find(entry) == 0)
        return before;
    return log.size();
  }
};

TEST(Checkpoint, WritesReachTheDiskBeforeTheRenameAndTheRenameBeforeADeletion) {
  TemporaryFolder run;
  CheckpointOptions one;
  one.keep = 1;
  CheckpointStore first(run.path(), one);
  saveStep(first, 1);
  RecordingFileSystem disk;
  CheckpointStore store(run.path(), one, disk);
  saveStep(store, 2);
  const auto &log = disk.log;
  const std::string final = run.path("checkpoints/step-00000002");
  const size_t renamed = disk.last("rename " + final, log.size());
  ASSERT_LT(renamed, log.size());
  size_t files = 0;
  std::string folderSync;
  for (size_t i = 0; i < renamed; ++i) {
    if (log[i].find("write ") != 0)
      continue;
    ++files;
    const std::string path = log[i].substr(6);
    size_t synced = disk.last("sync " + path, renamed);
    EXPECT_GT(synced, i) << path;
    EXPECT_LT(synced, renamed) << path;
    folderSync = "sync " + path.substr(0, path.rfind('/'));
  }
  EXPECT_GE(files, 5u);
  EXPECT_EQ(log[renamed - 1], folderSync);
  EXPECT_EQ(log[renamed + 1], "sync " + run.path("checkpoints"));
  EXPECT_EQ(log[renamed + 2], "rename " + run.path("latest"));
  EXPECT_EQ(log[renamed + 3], "sync " + run.path());
  EXPECT_EQ(log[renamed + 4], "rename " + run.path("checkpoints/step-00000001.tmp-deleted"));
  for (size_t i = 0; i < renamed; ++i)
    EXPECT_NE(log[i].find("remove "), 0u) << log[i];
}

class ForgetfulDisk : public FileSystem {
public:
  StatusOr<size_t> write(int file, const void *bytes, size_t size, const std::string &path) override {
    if (path.find("optimizer") == std::string::npos)
      return FileSystem::write(file, bytes, size, path);
    return FileSystem::write(file, std::string(size, '\0').data(), size, path);
  }
};

TEST(Checkpoint, AWriteThatTheDiskLostIsFoundBeforeTheOldOneGoes) {
  TemporaryFolder run;
  CheckpointOptions one;
  one.keep = 1;
  CheckpointStore good(run.path(), one);
  saveStep(good, 1);
  ForgetfulDisk disk;
  CheckpointStore store(run.path(), one, disk);
  Status status = store.save(2, TinyRun(2).contents()).status();
  EXPECT_TRUE(mentions(status, "optimizer.safetensors")) << status;
  expectNewest(run.path(), 1);
  EXPECT_EQ(namesIn(run.path("checkpoints")), (std::vector<std::string>{"step-00000001"}));
}

} // namespace
