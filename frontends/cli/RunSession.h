// A run folder opened for reading: its executable in a session, with a checkpoint's weights and masks.
#pragma once

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/data/Tokenizer.h"
#include "runtime/data/Windows.h"
#include "runtime/executor/Session.h"

#include <memory>
#include <string>

namespace sluice::cli {

/// The executable of a run folder. Error (usage): no run in the folder.
StatusOr<Executable> requireRun(const std::string &runFolder);

/// A run's checkpoint: newest, best, or a checkpoint folder. Errors: a folder that is not there (usage), no
/// valid checkpoint (bad input).
StatusOr<Checkpoint> findCheckpoint(const std::string &runFolder, const std::string &name);

class RunSession {
public:
  /// `checkpoint` is newest, best, or a checkpoint folder; `device` must outlive the result. Errors: no run
  /// in the folder (usage), no valid checkpoint (bad input), the session's own.
  static StatusOr<std::unique_ptr<RunSession>> open(const std::string &runFolder,
                                                    const std::string &checkpoint, Device &device);
  Session &session() { return *live; }
  int64_t step() const { return checkpointStep; }
  /// The run's tokenizer, which the run folder keeps.
  StatusOr<Tokenizer> tokenizer() const;
  /// How the run cut its text into windows.
  StatusOr<WindowMode> windowMode() const;

private:
  RunSession() = default;
  std::string folder;
  Executable executable;
  std::unique_ptr<Session> live;
  int64_t checkpointStep = 0;
};

} // namespace sluice::cli
