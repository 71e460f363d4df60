// The run folder's lock between real processes.
#include "runtime/checkpoint/RunLock.h"
#include "TestFiles.h"

#include <csignal>
#include <optional>
#include <sys/wait.h>
#include <unistd.h>

using namespace sluice;
using namespace sluice::test;

namespace {

/// Runs `body` in a child; returns its exit code.
template <typename Body> int inChild(Body body) {
  pid_t child = ::fork();
  if (child == 0)
    ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

TEST(RunLock, ASecondProcessIsRefusedWithTheHolder) {
  TemporaryFolder run;
  StatusOr<RunLock> lock = RunLock::acquire(run.path());
  ASSERT_TRUE(lock.ok()) << lock.status();
  const std::string holder = "process " + std::to_string(::getpid()) + " ";
  EXPECT_EQ(inChild([&] {
              Status status = RunLock::acquire(run.path()).status();
              return exitCode(status) == ExitCode::Usage && mentions(status, holder) ? 0 : 1;
            }),
            0);
  // Also a second time in the same process.
  EXPECT_FALSE(RunLock::acquire(run.path()).ok());
}

TEST(RunLock, IsReleasedByItsEndAndByAKill) {
  TemporaryFolder run;
  {
    StatusOr<RunLock> lock = RunLock::acquire(run.path());
    ASSERT_TRUE(lock.ok());
    std::optional<RunLock> moved = std::move(*lock);
    EXPECT_FALSE(RunLock::acquire(run.path()).ok());
  }
  EXPECT_EQ(inChild([&] {
              StatusOr<RunLock> lock = RunLock::acquire(run.path());
              if (lock.ok())
                ::kill(::getpid(), SIGKILL);
              return 1;
            }),
            0); // killed: no exit code
  EXPECT_TRUE(RunLock::acquire(run.path()).ok());
}

TEST(RunLock, AMissingFolderIsAnError) {
  EXPECT_FALSE(RunLock::acquire("/nonexistent/run").ok());
}

} // namespace
