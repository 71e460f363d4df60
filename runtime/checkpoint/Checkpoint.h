// Checkpoints of a training run: saved so that a crash, a kill or a full disk never costs the last good one.
#pragma once

#include "runtime/checkpoint/FileSystem.h"
#include "runtime/checkpoint/Manifest.h"
#include "runtime/checkpoint/Safetensors.h"
#include "runtime/checkpoint/SafetensorsWriter.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// What a checkpoint holds. Tensor bytes are borrowed until save returns.
struct CheckpointContents {
  std::vector<TensorSource> model; // Hugging Face names
  std::vector<TensorSource>
      optimizer;        // <name>.exp_avg and <name>.exp_avg_sq (firstMomentName, secondMomentName)
  nlohmann::json state; // the caller's: seen tokens, data cursor, seeds, schedule, metrics offset...
  std::vector<std::pair<std::string, std::string>> files; // further files: plain name, bytes
};

/// The names of AdamW's moments of a parameter in optimizer.safetensors.
std::string firstMomentName(std::string_view parameter);
std::string secondMomentName(std::string_view parameter);

/// A verified checkpoint, its tensors memory-mapped.
struct Checkpoint {
  std::string path;
  uint64_t step = 0;
  nlohmann::json state;
  SafetensorsFile model;
  SafetensorsFile optimizer;

  /// Verifies every file's size and hash, then opens the folder. Errors: what is missing or damaged.
  static StatusOr<Checkpoint> load(const std::string &folder, FileSystem &fileSystem = realFileSystem());
};

struct CheckpointOptions {
  /// How many checkpoints stay, the newest included; at least 1.
  int keep = 3;
  /// Links in the run folder whose targets are never deleted (see CheckpointStore::mark).
  std::vector<std::string> keepLinks = {"best"};
};

struct SaveReport {
  std::string path;
  uint64_t bytes = 0;
  bool alreadySaved = false;         // a valid checkpoint of this step was there and stays as it is
  std::vector<std::string> deleted;  // names of old checkpoints
  std::vector<std::string> warnings; // the checkpoint is safe, but something beside it failed
};

struct NewestCheckpoint {
  struct Rejected {
    std::string name;
    std::string reason;
  };
  std::optional<Checkpoint> checkpoint; // nothing when none is valid
  std::vector<Rejected> rejected;       // newer ones that did not verify, newest first
};

/// The checkpoints of one run folder:
///   checkpoints/step-00001000/{model.safetensors, optimizer.safetensors, state.json, ..., manifest.json}
///   latest -> checkpoints/step-00001000
/// A save writes into checkpoints/step-00001000.tmp-*, syncs each file and the folder, reads everything back
/// against the manifest, renames, syncs the parent, moves `latest`, and only then deletes old ones. Folders
/// with ".tmp-" in their name are leftovers: never read, removed by the next save. Callers hold a RunLock
/// while they save.
class CheckpointStore {
public:
  explicit CheckpointStore(std::string runFolder, CheckpointOptions options = {},
                           FileSystem &fileSystem = realFileSystem());

  /// Saves. On an error the earlier checkpoints are untouched. A valid checkpoint of the same step is kept
  /// and reported; a damaged one is replaced. Errors: too little disk space (checked first), a number in
  /// `state` that JSON cannot hold, the writer's and the system's errors.
  StatusOr<SaveReport> save(uint64_t step, const CheckpointContents &contents);

  /// The newest checkpoint that verifies. Errors only when the folder cannot be listed.
  StatusOr<NewestCheckpoint> newestValid();

  /// Points the link `name` (e.g. "best") in the run folder at the checkpoint of `step`, atomically.
  Status mark(const std::string &name, uint64_t step);

  /// The folder of a step's checkpoint, whether it exists or not.
  std::string pathOf(uint64_t step) const;

private:
  Status write(const std::string &folder, uint64_t step, const CheckpointContents &contents,
               SaveReport &report);
  StatusOr<ManifestFile> writeOne(const std::string &folder, const std::string &name,
                                  const std::function<Status(const ByteSink &)> &produce);
  Status publish(const std::string &temporary, uint64_t step, SaveReport &report);
  void removeLeftovers(SaveReport &report);
  void deleteOld(uint64_t newest, SaveReport &report);
  StatusOr<std::vector<uint64_t>> steps();

  std::string runFolder;
  std::string folder; // runFolder/checkpoints
  CheckpointOptions options;
  FileSystem &fileSystem;
  unsigned saves = 0;
};

} // namespace sluice
