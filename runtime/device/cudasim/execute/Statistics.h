// Exact counts of one launch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::cudasim {

struct Statistics {
  uint64_t warpInstructions = 0, threadInstructions = 0;
  uint64_t globalLoadBytes = 0, globalStoreBytes = 0;
  uint64_t sharedLoadBytes = 0, sharedStoreBytes = 0;
  uint64_t localBytes = 0;
  uint64_t atomics = 0;  // lanes
  uint64_t barriers = 0; // releases of block barriers
  // Counted when asked for:
  uint64_t globalRequests = 0, globalSectors = 0; // warp accesses, and the 32-byte sectors that they touch
  uint64_t distinctLoadBytes = 0, distinctStoreBytes = 0; // of global memory, each byte once a launch
  uint64_t sharedWavefronts = 0, bankConflicts = 0; // passes over the 32 banks; those beyond the unavoidable

  void add(const Statistics &other);
  /// One JSON object on one line.
  std::string json(std::string_view kernel) const;
};

} // namespace sluice::cudasim
