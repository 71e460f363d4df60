#include "frontends/cli/RunSession.h"

#include "frontends/cli/Paths.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/support/File.h"
#include "runtime/train/Masks.h"
#include "runtime/train/RunFolder.h"
#include "runtime/train/TrainingConfig.h"
#include "runtime/train/Weights.h"

namespace sluice::cli {
StatusOr<Checkpoint> findCheckpoint(const std::string &runFolder, const std::string &name) {
  if (name == "best")
    return Checkpoint::load(concat(runFolder, "/best"));
  if (name != "newest") {
    SLUICE_RETURN_IF_ERROR(requireInput("--checkpoint", name, "newest, best or a checkpoint folder"));
    return Checkpoint::load(name);
  }
  CheckpointStore store(runFolder);
  SLUICE_ASSIGN_OR_RETURN(NewestCheckpoint newest, store.newestValid());
  if (!newest.checkpoint) {
    std::string reasons;
    for (const auto &rejected : newest.rejected)
      reasons += concat("\n  ", rejected.name, ": ", rejected.reason);
    return badInputError(runFolder, ": expected a valid checkpoint, found none", reasons);
  }
  return std::move(*newest.checkpoint);
}

StatusOr<Executable> requireRun(const std::string &runFolder) {
  SLUICE_ASSIGN_OR_RETURN(std::optional<Executable> executable, runExecutable(runFolder));
  if (!executable)
    return usageError(runFolder, ": expected a run folder with ", runExecutableFile, "; `train ... -o ",
                      runFolder, "` makes one");
  return std::move(*executable);
}

StatusOr<std::unique_ptr<RunSession>> RunSession::open(const std::string &runFolder,
                                                       const std::string &checkpointName, Device &device) {
  auto run = std::unique_ptr<RunSession>(new RunSession());
  run->folder = runFolder;
  SLUICE_ASSIGN_OR_RETURN(run->executable, requireRun(runFolder));
  SLUICE_ASSIGN_OR_RETURN(Session session, Session::create(run->executable, device));
  run->live = std::make_unique<Session>(std::move(session));
  SLUICE_ASSIGN_OR_RETURN(Checkpoint checkpoint, findCheckpoint(runFolder, checkpointName));
  run->checkpointStep = static_cast<int64_t>(checkpoint.step);
  SLUICE_RETURN_IF_ERROR(importMasks(
      *run->live, [&](std::string_view name) { return checkpoint.optimizer.find(name); },
      checkpoint.optimizer.path()));
  SLUICE_RETURN_IF_ERROR(importModel(
      *run->live, [&](std::string_view name) { return checkpoint.model.find(name); },
      checkpoint.model.path()));
  SLUICE_RETURN_IF_ERROR(checkMaskedStates(*run->live, checkpoint.path));
  return run;
}

StatusOr<Tokenizer> RunSession::tokenizer() const {
  return Tokenizer::load(concat(folder, "/", runTokenizerFile));
}

StatusOr<WindowMode> RunSession::windowMode() const {
  // The horizon plays no part here, so any will do.
  TrainingOverrides overrides;
  overrides.tokens = 1;
  SLUICE_ASSIGN_OR_RETURN(TrainingConfig config,
                          readTrainingConfig(executable.description.training, overrides));
  return config.mode;
}

} // namespace sluice::cli
