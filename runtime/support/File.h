// Files: whole reads, memory maps, and writes that survive a crash (synced, then renamed).
#pragma once

#include "runtime/support/Status.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

/// The whole file as bytes. Errors: NotFound, or Internal with the system's reason.
StatusOr<std::string> readFile(const std::string &path);

/// Writes `bytes` to `path`, creating or truncating it; `sync` forces it to the disk before returning.
Status writeFile(const std::string &path, std::string_view bytes, bool sync = false);

/// Writes to a temporary name in the same folder, syncs, renames over `path`, syncs the folder.
Status writeFileAtomically(const std::string &path, std::string_view bytes);

/// Forces a folder's entries (creations, renames) to the disk.
Status syncFolder(const std::string &path);

/// A read-only memory map of a whole file; unmapped on destruction. Movable, not copyable.
class MappedFile {
public:
  static StatusOr<MappedFile> open(const std::string &path);
  MappedFile() = default;
  MappedFile(MappedFile &&other) noexcept;
  MappedFile &operator=(MappedFile &&other) noexcept;
  ~MappedFile();
  const uint8_t *data() const { return bytes; }
  size_t size() const { return length; }
  std::string_view view() const { return {reinterpret_cast<const char *>(bytes), length}; }

private:
  const uint8_t *bytes = nullptr;
  size_t length = 0;
};

} // namespace sluice
