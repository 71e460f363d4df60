// The training loop: data, steps, evaluations, records and checkpoints of one run (design section 9,
// docs/training.md).
#pragma once

#include "runtime/device/Device.h"
#include "runtime/metrics/Progress.h"
#include "runtime/schema/ExecutableDescription.h"
#include "runtime/train/Evaluate.h"
#include "runtime/train/TrainingConfig.h"

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

namespace sluice {

struct TrainOptions {
  std::string dataFolder, runFolder;
  TrainingOverrides overrides;
  std::optional<int64_t> stopAfterTokens; // an earlier stop; the schedule keeps its horizon
  std::string spec;                       // resolved spec, kept in the folder; empty when there is none
  uint64_t memoryLimit = 0;               // bytes that the plan may take; 0: what the device says it has
  std::FILE *out = nullptr;               // where progress goes; null: nowhere
  ProgressOptions progress;
  int64_t sampleTokens = 0; // text of this length is drawn before and after training; 0: none
  std::string samplePrompt;
  double sampleTemperature = 0.8;
};

struct TrainReport {
  int64_t step = 0, horizonSteps = 0;
  int64_t tokens = 0;    // step x batch_tokens
  bool finished = false; // the horizon is reached
  double seconds = 0;    // of this process's steps, evaluations and saves
  Evaluation validation; // at the last step
  std::optional<int64_t> bestStep;
  double bestNatsPerToken = 0;
  std::string checkpoint;                // folder of the newest one
  std::string sampleBefore, sampleAfter; // empty where none was asked for
};

/// Trains until the horizon or `stopAfterTokens`. The same call continues a run from its newest valid
/// checkpoint, bit for bit as if it had not stopped. Errors: usage (configuration, vocabulary, another run in
/// the folder, a second process, memory); bad input (data, checkpoints); diverged (a loss or norm that is not
/// finite: the last good state is saved); interrupted (INT, TERM or USR1: the step is finished and saved).
StatusOr<TrainReport> train(const Executable &executable, Device &device, const TrainOptions &options);

/// What `train` would do, without doing it: settings, schedule, data, memory plan, ledger.
StatusOr<std::string> describeTraining(const Executable &executable, const TrainOptions &options);

} // namespace sluice
