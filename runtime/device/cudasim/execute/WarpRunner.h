// Runs a warp: picks a group of lanes, steps it, splits it at divergent branches and joins it where its ways
// meet.
#pragma once

#include "runtime/device/cudasim/execute/Block.h"

namespace sluice::cudasim {

/// Runs `warp` until no group is ready, or it has used its turn. Returns whether any instruction ran.
bool runWarp(Block &block, Warp &warp);

/// Puts a warp's populated lanes at the kernel's start.
void startWarp(Warp &warp, uint32_t lanes);

/// Lets the lanes that wait at joins go on alone, when all others wait for them. Returns whether there were
/// any.
bool releaseJoins(Warp &warp);

} // namespace sluice::cudasim
