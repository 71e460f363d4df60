#include "runtime/support/File.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace sluice {
namespace {

Status systemError(std::string_view what, const std::string &path) {
  int code = errno;
  std::string text = concat(what, " '", path, "': ", std::strerror(code));
  return code == ENOENT ? absl::NotFoundError(text) : absl::InternalError(text);
}

/// A file descriptor that closes itself.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0)
      ::close(fd);
  }
};

std::string parentFolder(const std::string &path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos)
    return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

} // namespace

StatusOr<std::string> readFile(const std::string &path) {
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0)
    return systemError("cannot open", path);
  struct stat info{};
  if (::fstat(file.fd, &info) != 0)
    return systemError("cannot read", path);
  if (S_ISDIR(info.st_mode))
    return failure("cannot read '", path, "': it is a folder");
  std::string bytes;
  bytes.reserve(static_cast<size_t>(info.st_size));
  char buffer[1 << 16];
  for (;;) {
    ssize_t count = ::read(file.fd, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return systemError("cannot read", path);
    if (count == 0)
      return bytes;
    bytes.append(buffer, static_cast<size_t>(count));
  }
}

Status writeFile(const std::string &path, std::string_view bytes, bool sync) {
  Descriptor file{::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
  if (file.fd < 0)
    return systemError("cannot create", path);
  while (!bytes.empty()) {
    ssize_t count = ::write(file.fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return systemError("cannot write", path);
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  if (sync && ::fsync(file.fd) != 0)
    return systemError("cannot sync", path);
  int fd = std::exchange(file.fd, -1);
  if (::close(fd) != 0)
    return systemError("cannot close", path);
  return absl::OkStatus();
}

Status syncFolder(const std::string &path) {
  Descriptor folder{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (folder.fd < 0)
    return systemError("cannot open folder", path);
  if (::fsync(folder.fd) != 0)
    return systemError("cannot sync folder", path);
  return absl::OkStatus();
}

Status writeFileAtomically(const std::string &path, std::string_view bytes) {
  std::string temporary = concat(path, ".tmp-", ::getpid());
  if (Status status = writeFile(temporary, bytes, /*sync=*/true); !status.ok()) {
    ::unlink(temporary.c_str());
    return status;
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    Status status = systemError("cannot rename to", path);
    ::unlink(temporary.c_str());
    return status;
  }
  return syncFolder(parentFolder(path));
}

StatusOr<MappedFile> MappedFile::open(const std::string &path) {
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0)
    return systemError("cannot open", path);
  struct stat info{};
  if (::fstat(file.fd, &info) != 0)
    return systemError("cannot read", path);
  if (!S_ISREG(info.st_mode))
    return failure("cannot read '", path, "': it is not a regular file");
  MappedFile map;
  map.length = static_cast<size_t>(info.st_size);
  if (map.length == 0)
    return map;
  void *address = ::mmap(nullptr, map.length, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (address == MAP_FAILED)
    return systemError("cannot map", path);
  map.bytes = static_cast<const uint8_t *>(address);
  return map;
}

MappedFile::MappedFile(MappedFile &&other) noexcept
    : bytes(std::exchange(other.bytes, nullptr)), length(std::exchange(other.length, 0)) {}

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  std::swap(bytes, other.bytes);
  std::swap(length, other.length);
  return *this;
}

MappedFile::~MappedFile() {
  if (bytes)
    ::munmap(const_cast<uint8_t *>(bytes), length);
}

} // namespace sluice
