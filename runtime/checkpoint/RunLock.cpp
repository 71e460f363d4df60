#include "runtime/checkpoint/RunLock.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <utility>

namespace sluice {

StatusOr<RunLock> RunLock::acquire(const std::string &runFolder) {
  const std::string path = concat(runFolder, "/run.lock");
  int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0)
    return failure("cannot open the lock '", path, "': ", std::strerror(errno));
  RunLock lock(file);
  int code;
  do
    code = ::flock(file, LOCK_EX | LOCK_NB);
  while (code != 0 && errno == EINTR);
  if (code != 0 && errno != EWOULDBLOCK)
    return failure("cannot lock '", path, "': ", std::strerror(errno));
  if (code != 0) {
    char holder[32] = {};
    ssize_t size = ::pread(file, holder, sizeof holder - 1, 0);
    std::string id(holder, size > 0 ? static_cast<size_t>(size) : 0);
    id = id.substr(0, id.find_first_not_of("0123456789"));
    return usageError("run folder '", runFolder, "': expected no other process in it, found process ",
                      id.empty() ? "(unknown)" : id,
                      " at work; wait for it, stop it, or choose another folder");
  }
  const std::string id = concat(::getpid(), "\n");
  if (::ftruncate(file, 0) != 0 || ::pwrite(file, id.data(), id.size(), 0) != static_cast<ssize_t>(id.size()))
    return failure("cannot write '", path, "': ", std::strerror(errno));
  return lock;
}

RunLock::RunLock(RunLock &&other) noexcept : file(std::exchange(other.file, -1)) {}

RunLock &RunLock::operator=(RunLock &&other) noexcept {
  std::swap(file, other.file);
  return *this;
}

RunLock::~RunLock() {
  // The file stays: removing it would let two processes lock two files of the same name.
  if (file >= 0)
    ::close(file);
}

} // namespace sluice
