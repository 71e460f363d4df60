// One process per run folder: a lock that the system releases when its holder ends, however it ends.
#pragma once

#include "runtime/support/Status.h"

#include <string>

namespace sluice {

/// Holds <run folder>/run.lock (flock, exclusive) and the holder's process id in it. Movable; released on
/// destruction.
class RunLock {
public:
  /// Errors: a usage error with the holder's process id when another process has the folder; the system's
  /// errors.
  static StatusOr<RunLock> acquire(const std::string &runFolder);
  RunLock(RunLock &&other) noexcept;
  RunLock &operator=(RunLock &&other) noexcept;
  ~RunLock();

private:
  explicit RunLock(int file) : file(file) {}
  int file;
};

} // namespace sluice
