// The file-system calls that a checkpoint is made of, one virtual function each, so that a test can stop at
// any of them.
#pragma once

#include "runtime/support/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct FileInfo {
  enum class Kind { File, Folder, Link, Other };
  Kind kind = Kind::Other; // of the entry itself: links are not followed
  uint64_t size = 0;       // bytes
};

/// The POSIX calls. Errors carry the path and the system's reason: NotFound (ENOENT), AlreadyExists (EEXIST),
/// ResourceExhausted (ENOSPC, EDQUOT), Internal (everything else). Calls that a signal interrupts are
/// repeated.
class FileSystem {
public:
  virtual ~FileSystem() = default;

  /// Makes a file that must not exist yet and opens it for writing.
  virtual StatusOr<int> create(const std::string &path);
  /// Writes at most `size` bytes; returns how many.
  virtual StatusOr<size_t> write(int file, const void *bytes, size_t size, const std::string &path);
  virtual StatusOr<int> openForReading(const std::string &path);
  /// Reads at most `size` bytes; 0 is the end of the file.
  virtual StatusOr<size_t> read(int file, void *bytes, size_t size, const std::string &path);
  /// fsync of a file or folder.
  virtual Status sync(int file, const std::string &path);
  virtual Status close(int file, const std::string &path);
  virtual Status makeFolder(const std::string &path);
  virtual Status rename(const std::string &from, const std::string &to);
  virtual Status makeLink(const std::string &target, const std::string &path);
  virtual StatusOr<std::string> readLink(const std::string &path);
  virtual Status removeFile(const std::string &path);
  virtual Status removeFolder(const std::string &path);
  /// The names in a folder, sorted, without "." and "..".
  virtual StatusOr<std::vector<std::string>> list(const std::string &path);
  virtual StatusOr<FileInfo> info(const std::string &path);
  /// Bytes that this user may still write to the disk of `path`.
  virtual StatusOr<uint64_t> freeBytes(const std::string &path);

  // Made of the calls above.

  Status writeAll(int file, const void *bytes, size_t size, const std::string &path);
  StatusOr<std::string> readAll(const std::string &path);
  /// Forces a folder's entries to the disk.
  Status syncFolder(const std::string &path);
  /// Removes a file, link or folder with all it holds; links are removed, not followed.
  Status removeTree(const std::string &path);
};

/// The machine's file system.
FileSystem &realFileSystem();

} // namespace sluice
