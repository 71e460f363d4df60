// A checkpoint's manifest: written last, it states every file's size and hash, and its own.
#pragma once

#include "runtime/checkpoint/FileSystem.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

inline constexpr const char *manifestName = "manifest.json";
/// Raised whenever the meaning of a checkpoint's files changes.
inline constexpr uint64_t checkpointVersion = 1;

struct ManifestFile {
  std::string name; // a plain file name
  uint64_t size = 0;
  std::string sha256; // 64 lower-case hex digits
};

/// {"format": "sluice-checkpoint", "version", "step", "checksum", "files": [{"name", "size", "sha256"}]},
/// where checksum is the SHA-256 of the manifest's own text with 64 zeros in its place: no byte of it can
/// change unnoticed.
struct Manifest {
  uint64_t step = 0;
  std::vector<ManifestFile> files;

  StatusOr<std::string> text() const;
  /// Errors: BadInput naming `place`.
  static StatusOr<Manifest> parse(std::string_view text, const std::string &place);
  const ManifestFile *find(std::string_view name) const;
};

/// Reads the manifest of `folder` and compares the size of every file with it.
StatusOr<Manifest> verifySizes(FileSystem &fileSystem, const std::string &folder);
/// The same, and every file's hash.
StatusOr<Manifest> verifyContents(FileSystem &fileSystem, const std::string &folder);

} // namespace sluice
