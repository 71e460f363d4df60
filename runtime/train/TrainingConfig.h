// The training section of an executable, checked and with its defaults filled in (docs/training.md).
#pragma once

#include "runtime/data/Windows.h"
#include "runtime/train/MaskSchedule.h"
#include "runtime/train/Schedule.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// What a run does, in numbers. One training section and its command line give one configuration.
struct TrainingConfig {
  int64_t batchTokens = 0; // tokens of an optimizer step
  int64_t tokens = 0;      // horizon
  double learningRate = 0; // peak
  int64_t seed = 1;        // of the initial weights
  ScheduleOptions schedule;
  MaskScheduleOptions masks;

  WindowMode mode = WindowMode::Concatenate;
  uint64_t uniqueTokens = 0, uniqueWindows = 0; // 0: all; not both
  uint64_t dataSeed = 0;
  bool reshuffle = true;

  int64_t evaluateEveryTokens = 0; // 0: never between start and end
  std::vector<int64_t> evaluateAtTokens;
  int64_t evaluationWindows = 0; // 0: the whole validation split

  int64_t checkpointEverySteps = 250;
  int keepCheckpoints = 2;
  int64_t logEverySteps = 10;

  std::vector<std::pair<std::string, double>> lossWeights; // of the auxiliary losses, by name

  /// Every value as JSON, defaults included: what a run folder keeps and a resumed run is compared with.
  nlohmann::json resolved;

  /// Optimizer steps until `tokenCount` tokens have been read: ceil(tokenCount / batchTokens).
  int64_t stepsFor(int64_t tokenCount) const { return (tokenCount + batchTokens - 1) / batchTokens; }
};

/// What the command line says about the configuration.
struct TrainingOverrides {
  std::optional<int64_t> tokens, seed;
  std::vector<std::string> settings; // "train.lr=3e-4", "schedule.kind=linear": a spec's key and its value
};

/// Reads the training section of an executable. Errors (usage): unknown keys with the nearest known one,
/// wrong types, a missing horizon, values that fit no schedule, a setting of what is compiled into the
/// program (optimizer, losses). A message starts with the spec's key, e.g. "schedule.floor: expected ...".
StatusOr<TrainingConfig> readTrainingConfig(const std::string &json, const TrainingOverrides &overrides);

} // namespace sluice
