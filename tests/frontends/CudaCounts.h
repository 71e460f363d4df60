// What the simulated driver counted: what tests of whole steps share.
#pragma once

#include "tests/frontends/CudaModels.h"

#include <nlohmann/json.hpp>

#include <sstream>

namespace sluice::cli {

inline nlohmann::json calls() {
  return nlohmann::json::parse(simulatorFunction<const char *()>("cudasimCalls")());
}

inline void clearCounts() {
  simulatorFunction<void()>("cudasimClearStatistics")();
}

/// What each kernel launch since the last clear counted, in order.
inline std::vector<nlohmann::json> launches() {
  std::vector<nlohmann::json> found;
  std::istringstream lines(simulatorFunction<const char *()>("cudasimStatistics")());
  for (std::string line; std::getline(lines, line);)
    found.push_back(nlohmann::json::parse(line));
  return found;
}

/// Waits for the device.
inline Status settle(const Session &session) {
  char byte = 0;
  return session.readState(session.description().tensors.front(), 0, &byte, 1);
}

} // namespace sluice::cli
