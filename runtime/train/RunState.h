// What a checkpoint knows beside tensors: where the run is. Nothing in it depends on time or on earlier
// stops, so a run that was stopped and continued writes the same bytes as one that was not.
#pragma once

#include "runtime/support/Status.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace sluice {

struct RunState {
  int64_t step = 0;           // optimizer steps done
  uint64_t window = 0;        // the next window of the data stream
  uint64_t seenTokens = 0;    // counted targets that the run has learned from
  int64_t evaluatedStep = -1; // the last step whose due evaluation is done
  std::optional<int64_t> bestStep;
  double bestNatsPerToken = 0; // of bestStep
  int64_t seed = 0;
  uint64_t dataSeed = 0;
  int64_t horizonTokens = 0;
  std::string config; // SHA-256 of the run's configuration
  std::string device; // that wrote the checkpoint: "cpu"

  nlohmann::json toJson() const;
  /// Errors (bad input, naming `place`): another version, a missing or wrong field.
  static StatusOr<RunState> fromJson(const nlohmann::json &json, const std::string &place);
};

} // namespace sluice
