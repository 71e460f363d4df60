// Which bytes of global memory a launch touches: what it must move at least, however often it comes back to
// them.
#pragma once

#include "absl/container/flat_hash_map.h"

#include <bit>
#include <cstdint>

namespace sluice::cudasim {

class Footprint {
public:
  /// Notes an access of `bytes` <= 64 bytes at `address`.
  void note(uint64_t address, uint32_t bytes, bool isLoad, bool isStore) {
    while (bytes > 0) {
      const uint64_t first = address % 64;
      const uint32_t here = bytes < 64 - first ? bytes : static_cast<uint32_t>(64 - first);
      const uint64_t touched = (here == 64 ? ~uint64_t{0} : (uint64_t{1} << here) - 1) << first;
      Line &line = lines[address / 64];
      line.loaded |= isLoad ? touched : 0;
      line.stored |= isStore ? touched : 0;
      address += here;
      bytes -= here;
    }
  }
  void join(const Footprint &other) {
    for (const auto &[place, line] : other.lines) {
      Line &own = lines[place];
      own.loaded |= line.loaded;
      own.stored |= line.stored;
    }
  }
  uint64_t loadedBytes() const { return count(&Line::loaded); }
  uint64_t storedBytes() const { return count(&Line::stored); }

private:
  struct Line {
    uint64_t loaded = 0, stored = 0; // a bit a byte
  };
  uint64_t count(uint64_t Line::*bits) const {
    uint64_t total = 0;
    for (const auto &[place, line] : lines)
      total += static_cast<uint64_t>(std::popcount(line.*bits));
    return total;
  }

  absl::flat_hash_map<uint64_t, Line> lines; // by address / 64
};

} // namespace sluice::cudasim
