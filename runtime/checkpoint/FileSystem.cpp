#include "runtime/checkpoint/FileSystem.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace sluice {
namespace {

Status systemError(std::string_view what, const std::string &path) {
  const int code = errno;
  std::string text = concat("cannot ", what, " '", path, "': ", std::strerror(code));
  switch (code) {
  case ENOENT:
    return absl::NotFoundError(text);
  case EEXIST:
    return absl::AlreadyExistsError(text);
  case ENOSPC:
  case EDQUOT:
    return absl::ResourceExhaustedError(concat(text, "; free some disk space"));
  default:
    return absl::InternalError(text);
  }
}

Status result(int code, std::string_view what, const std::string &path) {
  return code == 0 ? absl::OkStatus() : systemError(what, path);
}

} // namespace

StatusOr<int> FileSystem::create(const std::string &path) {
  int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0)
    return systemError("create", path);
  return file;
}

StatusOr<size_t> FileSystem::write(int file, const void *bytes, size_t size, const std::string &path) {
  ssize_t count;
  do
    count = ::write(file, bytes, size);
  while (count < 0 && errno == EINTR);
  if (count < 0)
    return systemError("write", path);
  return static_cast<size_t>(count);
}

StatusOr<int> FileSystem::openForReading(const std::string &path) {
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return systemError("open", path);
  return file;
}

StatusOr<size_t> FileSystem::read(int file, void *bytes, size_t size, const std::string &path) {
  ssize_t count;
  do
    count = ::read(file, bytes, size);
  while (count < 0 && errno == EINTR);
  if (count < 0)
    return systemError("read", path);
  return static_cast<size_t>(count);
}

Status FileSystem::sync(int file, const std::string &path) {
  return result(::fsync(file), "sync", path);
}

Status FileSystem::close(int file, const std::string &path) {
  return result(::close(file), "close", path);
}

Status FileSystem::makeFolder(const std::string &path) {
  return result(::mkdir(path.c_str(), 0755), "create folder", path);
}

Status FileSystem::rename(const std::string &from, const std::string &to) {
  return result(std::rename(from.c_str(), to.c_str()), concat("rename '", from, "' to"), to);
}

Status FileSystem::makeLink(const std::string &target, const std::string &path) {
  return result(::symlink(target.c_str(), path.c_str()), "create link", path);
}

StatusOr<std::string> FileSystem::readLink(const std::string &path) {
  char target[PATH_MAX];
  ssize_t size = ::readlink(path.c_str(), target, sizeof target);
  if (size < 0)
    return systemError("read link", path);
  return std::string(target, static_cast<size_t>(size));
}

Status FileSystem::removeFile(const std::string &path) {
  return result(::unlink(path.c_str()), "remove", path);
}

Status FileSystem::removeFolder(const std::string &path) {
  return result(::rmdir(path.c_str()), "remove folder", path);
}

StatusOr<std::vector<std::string>> FileSystem::list(const std::string &path) {
  DIR *folder = ::opendir(path.c_str());
  if (!folder)
    return systemError("list folder", path);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent *entry = ::readdir(folder)) {
    std::string name = entry->d_name;
    if (name != "." && name != "..")
      names.push_back(std::move(name));
    errno = 0;
  }
  Status status = errno == 0 ? absl::OkStatus() : systemError("list folder", path);
  ::closedir(folder);
  SLUICE_RETURN_IF_ERROR(status);
  std::sort(names.begin(), names.end());
  return names;
}

StatusOr<FileInfo> FileSystem::info(const std::string &path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0)
    return systemError("examine", path);
  FileInfo info;
  info.kind = S_ISREG(status.st_mode)   ? FileInfo::Kind::File
              : S_ISDIR(status.st_mode) ? FileInfo::Kind::Folder
              : S_ISLNK(status.st_mode) ? FileInfo::Kind::Link
                                        : FileInfo::Kind::Other;
  info.size = static_cast<uint64_t>(status.st_size);
  return info;
}

StatusOr<uint64_t> FileSystem::freeBytes(const std::string &path) {
  struct statvfs disk{};
  if (::statvfs(path.c_str(), &disk) != 0)
    return systemError("examine the disk of", path);
  return static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
}

Status FileSystem::writeAll(int file, const void *bytes, size_t size, const std::string &path) {
  const char *next = static_cast<const char *>(bytes);
  while (size > 0) {
    SLUICE_ASSIGN_OR_RETURN(size_t count, write(file, next, size, path));
    next += count;
    size -= count;
  }
  return absl::OkStatus();
}

StatusOr<std::string> FileSystem::readAll(const std::string &path) {
  SLUICE_ASSIGN_OR_RETURN(int file, openForReading(path));
  std::string bytes;
  char piece[1 << 16];
  StatusOr<size_t> count;
  while ((count = read(file, piece, sizeof piece, path)).ok() && *count > 0)
    bytes.append(piece, *count);
  Status closed = close(file, path);
  SLUICE_RETURN_IF_ERROR(count.status());
  SLUICE_RETURN_IF_ERROR(closed);
  return bytes;
}

Status FileSystem::syncFolder(const std::string &path) {
  SLUICE_ASSIGN_OR_RETURN(int folder, openForReading(path));
  Status synced = sync(folder, path);
  Status closed = close(folder, path);
  return synced.ok() ? closed : synced;
}

Status FileSystem::removeTree(const std::string &path) {
  SLUICE_ASSIGN_OR_RETURN(FileInfo entry, info(path));
  if (entry.kind != FileInfo::Kind::Folder)
    return removeFile(path);
  SLUICE_ASSIGN_OR_RETURN(std::vector<std::string> names, list(path));
  for (const std::string &name : names)
    SLUICE_RETURN_IF_ERROR(removeTree(concat(path, "/", name)));
  return removeFolder(path);
}

FileSystem &realFileSystem() {
  static FileSystem fileSystem;
  return fileSystem;
}

} // namespace sluice
