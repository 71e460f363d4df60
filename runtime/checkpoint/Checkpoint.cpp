#include "runtime/checkpoint/Checkpoint.h"

#include "runtime/checkpoint/StrictJson.h"
#include "runtime/support/Hash.h"

#include <algorithm>
#include <set>
#include <unistd.h>

namespace sluice {
namespace {

constexpr const char *modelName = "model.safetensors";
constexpr const char *optimizerName = "optimizer.safetensors";
constexpr const char *stateName = "state.json";
/// Marks folders that are being written or deleted.
constexpr const char *temporaryMark = ".tmp-";
/// Kept free beside the files themselves: blocks, folder entries, the metrics of the meantime.
constexpr uint64_t spareBytes = 4 << 20;

std::string stepName(uint64_t step) {
  return absl::StrFormat("step-%08d", step);
}

/// The step of a checkpoint folder's name; nothing for any other name.
std::optional<uint64_t> stepOf(const std::string &name) {
  if (name.rfind("step-", 0) != 0 || name.size() > 24)
    return std::nullopt;
  uint64_t step = 0;
  for (char digit : name.substr(5)) {
    if (digit < '0' || digit > '9')
      return std::nullopt;
    step = step * 10 + static_cast<uint64_t>(digit - '0');
  }
  if (stepName(step) != name)
    return std::nullopt;
  return step;
}

std::string message(const Status &status) {
  return std::string(status.message());
}

} // namespace

std::string firstMomentName(std::string_view parameter) {
  return concat(parameter, ".exp_avg");
}
std::string secondMomentName(std::string_view parameter) {
  return concat(parameter, ".exp_avg_sq");
}

StatusOr<Checkpoint> Checkpoint::load(const std::string &folder, FileSystem &fileSystem) {
  SLUICE_ASSIGN_OR_RETURN(Manifest manifest, verifyContents(fileSystem, folder));
  for (const char *name : {modelName, optimizerName, stateName})
    if (!manifest.find(name))
      return badInputError(folder, ": expected ", name, " in its manifest, found none");
  Checkpoint checkpoint;
  checkpoint.path = folder;
  checkpoint.step = manifest.step;
  const std::string statePath = concat(folder, "/", stateName);
  SLUICE_ASSIGN_OR_RETURN(std::string text, fileSystem.readAll(statePath));
  SLUICE_ASSIGN_OR_RETURN(checkpoint.state, parseStrictJson(text, statePath));
  SLUICE_ASSIGN_OR_RETURN(checkpoint.model, SafetensorsFile::open(concat(folder, "/", modelName)));
  SLUICE_ASSIGN_OR_RETURN(checkpoint.optimizer, SafetensorsFile::open(concat(folder, "/", optimizerName)));
  return checkpoint;
}

CheckpointStore::CheckpointStore(std::string runFolder, CheckpointOptions options, FileSystem &fileSystem)
    : runFolder(std::move(runFolder)), folder(concat(this->runFolder, "/checkpoints")),
      options(std::move(options)), fileSystem(fileSystem) {}

std::string CheckpointStore::pathOf(uint64_t step) const {
  return concat(folder, "/", stepName(step));
}

StatusOr<SaveReport> CheckpointStore::save(uint64_t step, const CheckpointContents &contents) {
  SaveReport report;
  report.path = pathOf(step);
  Status made = fileSystem.makeFolder(folder);
  if (made.ok())
    SLUICE_RETURN_IF_ERROR(fileSystem.syncFolder(runFolder));
  else if (!absl::IsAlreadyExists(made))
    return made;
  removeLeftovers(report);

  if (verifyContents(fileSystem, report.path).ok()) {
    // It may have been renamed by a save that failed right afterwards, so what follows the rename is
    // repeated.
    report.alreadySaved = true;
    SLUICE_RETURN_IF_ERROR(fileSystem.syncFolder(folder));
  } else {
    const std::string temporary = concat(report.path, temporaryMark, ::getpid(), "-", saves++);
    Status status = write(temporary, step, contents, report);
    if (status.ok())
      status = publish(temporary, step, report);
    if (!status.ok()) {
      // A full disk gets its space back; whatever cannot be removed now is removed by the next save.
      if (Status removed = fileSystem.removeTree(temporary); !removed.ok() && !absl::IsNotFound(removed))
        return Status(status.code(),
                      concat(message(status), " (and the unfinished folder stays: ", message(removed), ")"));
      return status;
    }
  }
  if (Status marked = mark("latest", step); !marked.ok())
    report.warnings.push_back(message(marked));
  deleteOld(step, report);
  return report;
}

Status CheckpointStore::write(const std::string &temporary, uint64_t step, const CheckpointContents &contents,
                              SaveReport &report) {
  // Everything that can be refused is refused before the first byte is written.
  SLUICE_ASSIGN_OR_RETURN(SafetensorsWriter model, SafetensorsWriter::create(contents.model));
  SLUICE_ASSIGN_OR_RETURN(SafetensorsWriter optimizer, SafetensorsWriter::create(contents.optimizer));
  SLUICE_ASSIGN_OR_RETURN(std::string state, dumpStrictJson(contents.state, stateName, /*indent=*/1));
  report.bytes = model.size() + optimizer.size() + state.size();
  for (const auto &[name, bytes] : contents.files)
    report.bytes += bytes.size();
  SLUICE_ASSIGN_OR_RETURN(uint64_t free, fileSystem.freeBytes(folder));
  if (free < spareBytes || free - spareBytes < report.bytes)
    return absl::ResourceExhaustedError(concat("checkpoint '", report.path, "': expected ",
                                               report.bytes + spareBytes, " bytes free on its disk, found ",
                                               free, "; free some disk space or keep fewer checkpoints"));

  SLUICE_RETURN_IF_ERROR(fileSystem.makeFolder(temporary));
  Manifest manifest;
  manifest.step = step;
  auto add = [&](const std::string &name, const std::function<Status(const ByteSink &)> &produce) -> Status {
    if (!isPlainFileName(name) || name == manifestName || manifest.find(name))
      return failure("cannot save ", inQuotes(name),
                     " in a checkpoint: expected a plain name that is not yet taken");
    SLUICE_ASSIGN_OR_RETURN(ManifestFile file, writeOne(temporary, name, produce));
    manifest.files.push_back(std::move(file));
    return absl::OkStatus();
  };
  SLUICE_RETURN_IF_ERROR(add(modelName, [&](const ByteSink &sink) { return model.write(sink); }));
  SLUICE_RETURN_IF_ERROR(add(optimizerName, [&](const ByteSink &sink) { return optimizer.write(sink); }));
  SLUICE_RETURN_IF_ERROR(
      add(stateName, [&](const ByteSink &sink) { return sink(state.data(), state.size()); }));
  for (const auto &[name, bytes] : contents.files)
    SLUICE_RETURN_IF_ERROR(add(name, [&](const ByteSink &sink) { return sink(bytes.data(), bytes.size()); }));
  SLUICE_ASSIGN_OR_RETURN(std::string text, manifest.text());
  SLUICE_RETURN_IF_ERROR(writeOne(temporary, manifestName, [&](const ByteSink &sink) {
                           return sink(text.data(), text.size());
                         }).status());
  SLUICE_RETURN_IF_ERROR(fileSystem.syncFolder(temporary));
  return verifyContents(fileSystem, temporary).status();
}

StatusOr<ManifestFile> CheckpointStore::writeOne(const std::string &temporary, const std::string &name,
                                                 const std::function<Status(const ByteSink &)> &produce) {
  const std::string path = concat(temporary, "/", name);
  SLUICE_ASSIGN_OR_RETURN(int file, fileSystem.create(path));
  ManifestFile entry{name};
  Sha256 hash;
  Status status = produce([&](const void *bytes, size_t size) {
    hash.update(bytes, size);
    entry.size += size;
    return fileSystem.writeAll(file, bytes, size, path);
  });
  if (status.ok())
    status = fileSystem.sync(file, path);
  Status closed = fileSystem.close(file, path);
  SLUICE_RETURN_IF_ERROR(status);
  SLUICE_RETURN_IF_ERROR(closed);
  entry.sha256 = toHex(hash.finish());
  return entry;
}

Status CheckpointStore::publish(const std::string &temporary, uint64_t step, SaveReport &report) {
  // A damaged checkpoint of this step stands in the way: a folder is not renamed over another.
  StatusOr<FileInfo> occupant = fileSystem.info(report.path);
  if (occupant.ok())
    SLUICE_RETURN_IF_ERROR(fileSystem.rename(report.path, concat(temporary, "-damaged")));
  else if (!absl::IsNotFound(occupant.status()))
    return occupant.status();
  SLUICE_RETURN_IF_ERROR(fileSystem.rename(temporary, report.path));
  SLUICE_RETURN_IF_ERROR(fileSystem.syncFolder(folder));
  if (occupant.ok())
    if (Status removed = fileSystem.removeTree(concat(temporary, "-damaged")); !removed.ok())
      report.warnings.push_back(message(removed));
  return absl::OkStatus();
}

void CheckpointStore::removeLeftovers(SaveReport &report) {
  StatusOr<std::vector<std::string>> names = fileSystem.list(folder);
  if (!names.ok()) {
    report.warnings.push_back(message(names.status()));
    return;
  }
  for (const std::string &name : *names)
    if (name.rfind("step-", 0) == 0 && name.find(temporaryMark) != std::string::npos)
      if (Status removed = fileSystem.removeTree(concat(folder, "/", name)); !removed.ok())
        report.warnings.push_back(message(removed));
}

Status CheckpointStore::mark(const std::string &name, uint64_t step) {
  if (!isPlainFileName(name))
    return failure("cannot name a checkpoint ", inQuotes(name), ": expected a plain file name");
  const std::string path = concat(runFolder, "/", name), temporary = concat(path, temporaryMark, "link");
  Status removed = fileSystem.removeFile(temporary);
  if (!removed.ok() && !absl::IsNotFound(removed))
    return removed;
  SLUICE_RETURN_IF_ERROR(fileSystem.makeLink(concat("checkpoints/", stepName(step)), temporary));
  SLUICE_RETURN_IF_ERROR(fileSystem.rename(temporary, path));
  return fileSystem.syncFolder(runFolder);
}

StatusOr<std::vector<uint64_t>> CheckpointStore::steps() {
  StatusOr<std::vector<std::string>> names = fileSystem.list(folder);
  std::vector<uint64_t> found;
  if (absl::IsNotFound(names.status()))
    return found;
  SLUICE_RETURN_IF_ERROR(names.status());
  for (const std::string &name : *names)
    if (std::optional<uint64_t> step = stepOf(name))
      found.push_back(*step);
  std::sort(found.rbegin(), found.rend());
  return found;
}

void CheckpointStore::deleteOld(uint64_t newest, SaveReport &report) {
  StatusOr<std::vector<uint64_t>> found = steps();
  if (!found.ok()) {
    report.warnings.push_back(message(found.status()));
    return;
  }
  std::set<std::string> spared;
  for (const std::string &link : options.keepLinks) {
    StatusOr<std::string> target = fileSystem.readLink(concat(runFolder, "/", link));
    if (target.ok()) {
      spared.insert(target->substr(target->rfind('/') + 1));
    } else if (!absl::IsNotFound(target.status())) {
      // Without the link's target nobody knows what must stay.
      report.warnings.push_back(message(target.status()));
      return;
    }
  }
  int kept = 1;
  for (uint64_t step : *found) {
    // Later steps come from a future that was given up; only the run that made them may know why.
    if (step >= newest)
      continue;
    // A damaged one does not count, so that it never takes the place of a good one.
    if (kept < options.keep) {
      kept += verifySizes(fileSystem, pathOf(step)).ok();
      continue;
    }
    if (spared.count(stepName(step)))
      continue;
    // Renamed first: a deletion that is interrupted leaves no half a checkpoint under a good name.
    const std::string doomed = concat(pathOf(step), temporaryMark, "deleted");
    Status removed = fileSystem.rename(pathOf(step), doomed);
    if (removed.ok())
      removed = fileSystem.removeTree(doomed);
    if (removed.ok())
      report.deleted.push_back(stepName(step));
    else
      report.warnings.push_back(message(removed));
  }
}

StatusOr<NewestCheckpoint> CheckpointStore::newestValid() {
  NewestCheckpoint result;
  SLUICE_ASSIGN_OR_RETURN(std::vector<uint64_t> found, steps());
  for (uint64_t step : found) {
    StatusOr<Checkpoint> checkpoint = Checkpoint::load(pathOf(step), fileSystem);
    if (checkpoint.ok() && checkpoint->step == step) {
      result.checkpoint = std::move(*checkpoint);
      return result;
    }
    result.rejected.push_back(
        {stepName(step), checkpoint.ok()
                             ? concat("expected step ", step, " in its manifest, found ", checkpoint->step)
                             : message(checkpoint.status())});
  }
  return result;
}

} // namespace sluice
