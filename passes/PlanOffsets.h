// Places for values of known size and lifetime in one piece of memory.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

/// A value that is alive from command `first` to command `last`, both included.
struct LiveBlock {
  int64_t bytes = 0; // a multiple of 64
  int64_t first = 0, last = 0;
  int64_t offset = 0; // found by placeBlocks

  bool livesWith(const LiveBlock &other) const { return first <= other.last && other.first <= last; }
};

/// Gives every block an offset such that blocks alive together do not overlap; returns the size of the arena.
/// The largest are placed first, each into the smallest gap that holds it (best fit), else at the end of what
/// it lives with.
int64_t placeBlocks(std::vector<LiveBlock> &blocks);

} // namespace sluice
