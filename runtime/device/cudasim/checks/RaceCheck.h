// Finds accesses to the same memory that nothing orders: within a warp, between warps of a block, between
// blocks. Happens-before by vector clocks: barriers, warp syncs, and fences with atomics make edges;
// shuffles do not.
#pragma once

#include "runtime/device/cudasim/checks/Clock.h"
#include "runtime/device/cudasim/program/Program.h"

#include "absl/container/flat_hash_map.h"

#include <optional>
#include <vector>

namespace sluice::cudasim {

/// The race check's part of a warp.
struct WarpClock {
  uint32_t epoch = 1;    // grows at every release
  Clock known;           // of other warps
  uint32_t laneSync = 0; // accesses up to this epoch are ordered for all lanes of this warp
  struct PartialSync {
    uint32_t lanes, epoch;
  };
  std::vector<PartialSync> partial; // bar.warp.sync of some lanes, newest last
  std::optional<Clock> fenced;      // what an atomic or flag after the last fence publishes
  Clock pending;                    // what atomics and flags told; the next fence takes it in
};

struct AccessPlace {
  uint64_t block = 0;
  uint32_t thread = 0; // linear in the block
  uint32_t op = 0;
  uint64_t value = 0; // of a store
  bool isStore = false;
  bool strong = false; // atomic or volatile: two of them never race
};

/// The other side of a race.
struct Race {
  uint64_t block;
  uint32_t thread, op;
  bool wasStore;
};

/// History of a range of memory, 4 bytes a cell, all of one launch (global) or of one block (shared).
class RaceHistory {
public:
  void clear() { cells.clear(); }
  /// Notes an access of `bytes` at `address` and returns a conflicting one that is not ordered before it.
  std::optional<Race> access(uint64_t address, uint32_t bytes, const AccessPlace &place,
                             const WarpClock &clock);

private:
  struct Stamp {
    uint64_t block = 0;
    uint64_t value = 0;
    uint32_t thread = 0, epoch = 0, op = kNoOp; // epoch 0: no access yet
    bool strong = false;
    uint8_t bytes = 0; // which of the cell's four
  };
  struct Cell {
    Stamp write, read, otherRead;
  };
  static bool orderedBefore(const Stamp &stamp, const AccessPlace &place, const WarpClock &clock);
  absl::flat_hash_map<uint64_t, Cell> cells;
};

/// Flags and atomics of one launch: what was published through each address.
class SyncPoints {
public:
  void publish(uint64_t address, const WarpClock &warp);
  void observe(uint64_t address, WarpClock &warp) const;

private:
  absl::flat_hash_map<uint64_t, Clock> published;
};

/// A fence of a warp: takes in what was observed, and makes what is known now publishable.
void fence(WarpClock &warp, uint64_t self);
/// A sync of `lanes` of the warp; `allLanes` are those that still run.
void syncLanes(WarpClock &warp, uint32_t lanes, uint32_t allLanes);

} // namespace sluice::cudasim
