#include "frontends/cli/Paths.h"

#include "runtime/train/Count.h"

#include <filesystem>
#include <vector>

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

bool isThere(const fs::path &path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// "; did you mean 'moe.yaml'?", or nothing.
std::string nearestInFolder(const fs::path &path) {
  fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename());
  std::string nearest = nearestName(path.filename().string(), names);
  return nearest.empty() ? "" : concat("; did you mean '", (path.parent_path() / nearest).string(), "'?");
}

} // namespace

Status requireInput(const std::string &option, const std::string &path, const std::string &what) {
  if (isThere(path))
    return absl::OkStatus();
  return usageError(option, ": expected ", what, ", found nothing at '", path, "'", nearestInFolder(path));
}

Status requireOutput(const std::string &option, const std::string &path) {
  fs::path folder = fs::path(path).parent_path();
  std::error_code ignored;
  if (folder.empty() || fs::is_directory(folder, ignored))
    return absl::OkStatus();
  return usageError(option, ": expected a folder at '", folder.string(), "' to write in, found ",
                    isThere(folder) ? "a file" : "nothing", "; make it first");
}

Status requireDataset(const std::string &option, const std::string &path) {
  if (isThere(fs::path(path) / "dataset.json"))
    return absl::OkStatus();
  SLUICE_RETURN_IF_ERROR(requireInput(option, path, "a folder made by `sluice data pack`"));
  return usageError(option, ": expected a folder made by `sluice data pack`, found no dataset.json in '",
                    path, "'");
}

} // namespace sluice::cli
