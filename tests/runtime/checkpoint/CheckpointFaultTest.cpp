// A save is stopped at each of its system calls in turn, by an error, by the end of the process and by a full
// disk: the newest valid checkpoint always loads, whole, and the next save succeeds.
#include "TestRuns.h"

#include <sys/wait.h>
#include <unistd.h>

using namespace sluice;
using namespace sluice::test;
namespace fs = std::filesystem;

namespace {

enum class Fault { None, Error, Kill, TornWrite, FullDisk };
constexpr int killedCode = 77;

/// Counts the calls and lets the chosen one fail. Nothing waits for the disk: here processes die, not
/// machines.
class FaultyFileSystem : public FileSystem {
public:
  Fault fault = Fault::None;
  int at = 0;    // the call that fails, from 1
  int calls = 0; // so far
  bool fired = false;

  StatusOr<int> create(const std::string &path) override {
    SLUICE_RETURN_IF_ERROR(before(/*takesSpace=*/true));
    return FileSystem::create(path);
  }
  StatusOr<size_t> write(int file, const void *bytes, size_t size, const std::string &path) override {
    if (fault == Fault::TornWrite && calls + 1 == at) {
      // The process dies with half of its bytes on the disk.
      (void)FileSystem::write(file, bytes, size / 2, path);
      ::_exit(killedCode);
    }
    SLUICE_RETURN_IF_ERROR(before(/*takesSpace=*/true));
    return FileSystem::write(file, bytes, size, path);
  }
  StatusOr<int> openForReading(const std::string &path) override {
    SLUICE_RETURN_IF_ERROR(before());
    return FileSystem::openForReading(path);
  }
  StatusOr<size_t> read(int file, void *bytes, size_t size, const std::string &path) override {
    SLUICE_RETURN_IF_ERROR(before());
    return FileSystem::read(file, bytes, size, path);
  }
  Status sync(int file, const std::string &path) override { return before(); }
  Status close(int file, const std::string &path) override {
    Status status = before();
    // A close that reports an error has closed the file all the same.
    Status closed = FileSystem::close(file, path);
    return status.ok() ? closed : status;
  }
  Status makeFolder(const std::string &path) override {
    SLUICE_RETURN_IF_ERROR(before(/*takesSpace=*/true));
    return FileSystem::makeFolder(path);
  }
  Status rename(const std::string &from, const std::string &to) override {
    SLUICE_RETURN_IF_ERROR(before());
    return FileSystem::rename(from, to);
  }
  Status makeLink(const std::string &target, const std::string &path) override {
    SLUICE_RETURN_IF_ERROR(before(/*takesSpace=*/true));
    return FileSystem::makeLink(target, path);
  }
  StatusOr<std::string> readLink(const std::string &path) override {
    SLUICE_RETURN_IF_ERROR(before());
    return FileSystem::readLink(path);
  }
  Status removeFile(const std::string &path) override {
    SLUICE_RETURN_IF_ERROR(before());
    return FileSystem::removeFile(path);
  }
  Status removeFolder(const std::string &path) override {
    SLUICE_RETURN_IF_ERROR(before());
    return FileSystem::removeFolder(path);
  }
  StatusOr<std::vector<std::string>> list(const std::string &path) override {
    SLUICE_RETURN_IF_ERROR(before());
    return FileSystem::list(path);
  }
  StatusOr<FileInfo> info(const std::string &path) override {
    SLUICE_RETURN_IF_ERROR(before());
    return FileSystem::info(path);
  }
  StatusOr<uint64_t> freeBytes(const std::string &path) override {
    SLUICE_RETURN_IF_ERROR(before());
    return FileSystem::freeBytes(path);
  }

private:
  Status before(bool takesSpace = false) {
    ++calls;
    if (fault == Fault::None || calls < at)
      return absl::OkStatus();
    if (fault == Fault::FullDisk) {
      fired |= takesSpace;
      return takesSpace ? absl::ResourceExhaustedError("ENOSPC") : absl::OkStatus();
    }
    if (calls > at)
      return absl::OkStatus();
    fired = true;
    if (fault == Fault::Kill)
      ::_exit(killedCode);
    return fault == Fault::Error ? absl::InternalError("EIO") : absl::OkStatus();
  }
};

CheckpointOptions keepOne() {
  CheckpointOptions options;
  options.keep = 1;
  return options;
}

/// Step 1 is saved; step 2 is about to be. With `damaged`, a broken step 2 stands in the way and a leftover
/// lies around.
void prepare(const std::string &run, bool damaged) {
  CheckpointStore store(run, {100}, unsynced());
  saveStep(store, 1);
  if (!damaged)
    return;
  ASSERT_TRUE(store.mark("best", 1).ok());
  saveStep(store, 2);
  ASSERT_TRUE(writeFile(run + "/checkpoints/step-00000002/state.json", "{}").ok());
  fs::create_directories(run + "/checkpoints/step-00000002.tmp-1-0");
  ASSERT_TRUE(writeFile(run + "/checkpoints/step-00000002.tmp-1-0/model.safetensors", "half").ok());
}

/// After the fault: the older or the newer state, whole; then two more saves that work and tidy up.
void expectRecovery(const std::string &run, bool damaged) {
  StatusOr<NewestCheckpoint> newest = CheckpointStore(run).newestValid();
  ASSERT_TRUE(newest.ok()) << newest.status();
  ASSERT_TRUE(newest->checkpoint.has_value());
  ASSERT_TRUE(newest->checkpoint->step == 1 || newest->checkpoint->step == 2);
  TinyRun(newest->checkpoint->step).expectEqual(*newest->checkpoint);

  CheckpointStore store(run, keepOne(), unsynced());
  for (uint64_t step : {2, 3}) {
    saveStep(store, step);
    expectNewest(run, step);
  }
  EXPECT_EQ(fs::read_symlink(run + "/latest"), "checkpoints/step-00000003");
  using Names = std::vector<std::string>;
  EXPECT_EQ(*realFileSystem().list(run + "/checkpoints"),
            damaged ? Names({"step-00000001", "step-00000003"}) : Names({"step-00000003"}));
  EXPECT_EQ(*realFileSystem().list(run),
            damaged ? Names({"best", "checkpoints", "latest"}) : Names({"checkpoints", "latest"}));
}

/// One save with the fault at call `at`; whether the fault happened.
bool saveWithFault(const std::string &run, Fault fault, int at) {
  FaultyFileSystem disk;
  disk.fault = fault;
  disk.at = at;
  if (fault == Fault::Error || fault == Fault::FullDisk) {
    CheckpointStore store(run, keepOne(), disk);
    StatusOr<SaveReport> report = store.save(2, TinyRun(2).contents());
    // A save that says it succeeded has succeeded.
    if (report.ok())
      expectNewest(run, 2);
    // The same process goes on: its next save must work as well.
    disk.fault = Fault::None;
    StatusOr<SaveReport> again = store.save(2, TinyRun(2).contents());
    EXPECT_TRUE(again.ok()) << again.status();
    return disk.fired;
  }
  pid_t child = ::fork();
  if (child == 0) {
    CheckpointStore store(run, keepOne(), disk);
    ::_exit(store.save(2, TinyRun(2).contents()).ok() ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_TRUE(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == killedCode) << WEXITSTATUS(status);
  return WEXITSTATUS(status) == killedCode;
}

int callsOfACleanSave(bool damaged) {
  TemporaryFolder run;
  prepare(run.path(), damaged);
  FaultyFileSystem disk;
  CheckpointStore store(run.path(), keepOne(), disk);
  EXPECT_TRUE(store.save(2, TinyRun(2).contents()).ok());
  return disk.calls;
}

class SaveStopped : public testing::TestWithParam<std::tuple<Fault, bool>> {};

TEST_P(SaveStopped, AtEachSystemCall) {
  const auto [fault, damaged] = GetParam();
  const int calls = callsOfACleanSave(damaged);
  ASSERT_GT(calls, 50);
  int faults = 0;
  for (int at = 1; at <= calls + 1; ++at) {
    SCOPED_TRACE(testing::Message() << "call " << at << " of " << calls);
    TemporaryFolder run;
    prepare(run.path(), damaged);
    bool fired = saveWithFault(run.path(), fault, at);
    faults += fired;
    if (fault == Fault::Error || fault == Fault::Kill)
      EXPECT_EQ(fired, at <= calls);
    expectRecovery(run.path(), damaged);
    if (HasFatalFailure() || HasNonfatalFailure())
      return;
  }
  EXPECT_GT(faults, 5);
}

std::string caseName(const testing::TestParamInfo<SaveStopped::ParamType> &info) {
  const char *names[] = {"None", "Error", "Kill", "TornWrite", "FullDisk"};
  return std::string(names[static_cast<int>(std::get<0>(info.param))]) +
         (std::get<1>(info.param) ? "OverADamagedOne" : "");
}

INSTANTIATE_TEST_SUITE_P(Faults, SaveStopped,
                         testing::Combine(testing::Values(Fault::Error, Fault::Kill, Fault::TornWrite,
                                                          Fault::FullDisk),
                                          testing::Bool()),
                         caseName);

TEST(CheckpointFault, AFullDiskLeavesNothingBehind) {
  TemporaryFolder run;
  prepare(run.path(), false);
  FaultyFileSystem disk;
  disk.fault = Fault::FullDisk;
  disk.at = 12;
  CheckpointStore store(run.path(), keepOne(), disk);
  Status status = store.save(2, TinyRun(2).contents()).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(*realFileSystem().list(run.path("checkpoints")), (std::vector<std::string>{"step-00000001"}));
}

} // namespace
