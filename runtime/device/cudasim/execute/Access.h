// From addresses in a register row to host memory, with the checks on the way.
#pragma once

#include "runtime/device/cudasim/execute/Block.h"

namespace sluice::cudasim {

/// Where the lanes of one access go.
struct LanePointers {
  uint8_t *pointers[kLanes];
  uint32_t lanes = 0; // those whose access is legal; the others were reported
};

/// Translates the addresses of `op` (row `addressRow`) for the lanes of `mask`; `bytes` each, naturally
/// aligned. Illegal accesses are reported and end the launch. Counts bytes; runs the init and race checks,
/// which read the values to store from `values` (null for loads and atomics).
void resolve(Warp &warp, const Op &op, uint32_t addressRow, uint32_t mask, uint32_t bytes,
             LanePointers &result);

/// The space and offset of a generic address.
AddressSpace splitGeneric(uint64_t &address);

} // namespace sluice::cudasim
