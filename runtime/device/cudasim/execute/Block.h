// One block in execution: its warps, its shared memory and its barriers.
#pragma once

#include "runtime/device/cudasim/execute/Footprint.h"
#include "runtime/device/cudasim/execute/Grid.h"
#include "runtime/device/cudasim/execute/Warp.h"

#include <memory>
#include <random>

namespace sluice::cudasim {

constexpr uint32_t kBarriers = 16;

/// A block barrier between its first arrival and its release.
struct Barrier {
  std::vector<uint32_t> arrived;    // lanes, for each warp
  std::vector<uint32_t> predicates; // of bar.red
  uint32_t expected = 0;            // threads; 0: all of the block
  uint32_t op = kNoOp;              // instruction of the first arrival
  Clock clock;                      // what the arrivals knew
  bool used = false;
};

class Block {
public:
  explicit Block(Grid &grid);
  /// Runs block `linear` of the grid to its end, or until the launch stops.
  void run(uint64_t linear);

  Grid &grid;
  Statistics statistics;
  Footprint footprint; // filled where statistics are asked for
  uint64_t linear = 0;
  uint32_t index[3] = {0, 0, 0};
  std::vector<Warp> warps;

  /// Memory of the block; `shared` has the static and the dynamic part.
  std::vector<uint8_t> shared, sharedWritten, local;
  RaceHistory sharedHistory;

  /// Reports a finding at `op` for a lane of `warp`.
  void report(Check check, const Warp &warp, const Op &op, uint32_t lane, uint64_t address,
              std::string_view message);
  /// The linear thread as "(x,y,z)".
  std::string threadName(uint32_t thread) const;
  uint32_t opIndex(const Op &op) const { return static_cast<uint32_t>(&op - grid.kernel.ops.data()); }

  /// The lanes of `group` reach a barrier. Returns false when they wait there.
  bool arrive(Warp &warp, Group &group, const Op &op);
  /// Looks whether arrivals or ended lanes complete a barrier.
  void releaseBarriers();

private:
  void start(uint64_t block);
  void fillRows(Warp &warp);
  void release(uint32_t number);
  bool isComplete(const Barrier &barrier) const;
  bool breakDeadlock();
  void reportDeadlock();

  struct FreeDeleter {
    void operator()(uint8_t *memory) const { std::free(memory); }
  };
  std::unique_ptr<uint8_t, FreeDeleter> files; // register files of all warps
  Barrier barriers[kBarriers];
  std::mt19937_64 random;
};

} // namespace sluice::cudasim
