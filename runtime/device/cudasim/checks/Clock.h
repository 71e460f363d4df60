// Vector clocks: what a warp knows to have happened. They order accesses for the race check.
#pragma once

#include "absl/container/flat_hash_map.h"

#include <cstdint>

namespace sluice::cudasim {

/// Warp `warp` of block `block`, as one number.
inline uint64_t warpKey(uint64_t block, uint32_t warp) {
  return block << 6 | warp;
}

/// For each warp the last of its epochs whose accesses happened before.
class Clock {
public:
  void join(const Clock &other) {
    for (const auto &[warp, epoch] : other.epochs)
      advance(warp, epoch);
  }
  void advance(uint64_t warp, uint32_t epoch) {
    uint32_t &known = epochs[warp];
    known = known < epoch ? epoch : known;
  }
  bool covers(uint64_t warp, uint32_t epoch) const {
    auto found = epochs.find(warp);
    return found != epochs.end() && found->second >= epoch;
  }
  bool empty() const { return epochs.empty(); }
  void clear() { epochs.clear(); }

private:
  absl::flat_hash_map<uint64_t, uint32_t> epochs;
};

} // namespace sluice::cudasim
