// What a prepared command is on the CPU: stages, each of a fixed number of tiles that any thread may run.
#pragma once

#include "runtime/device/Arguments.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>

namespace sluice::cpu {

/// What a tile is told.
struct Tile {
  int64_t index;
  int worker;                // 0 <= worker < PrepareContext::workers
  std::byte *scratch;        // this worker's memory, PreparedKernel::scratchBytes large, contents undefined
  std::byte *workspace;      // shared by the command's tiles and stages, contents undefined at its start
  std::atomic<bool> *damage; // set by a tile that met data it must not follow (an id outside its table)
};

/// Tiles of one stage may run in any order and side by side; a stage starts when the one before has finished.
struct Stage {
  int64_t tiles;
  std::function<void(const Tile &)> run;   // must not allocate and must not throw
  std::function<int64_t()> liveTiles = {}; // when set, the count is asked at every execution instead
};

struct PreparedKernel {
  std::vector<Stage> stages;
  uint64_t scratchBytes = 0;   // of each worker
  uint64_t workspaceBytes = 0; // of the command
};

class DerivedState;
struct LoadedKernel;

/// What a prepare function may use.
struct PrepareContext : CommandContext {
  int workers;
  DerivedState &derived;
  const std::map<std::string, LoadedKernel, std::less<>> &kernels;
};

using PrepareFunction = StatusOr<PreparedKernel> (*)(PrepareContext &context);

/// The prepare function of a command kind; null for an unknown kind.
PrepareFunction findKernel(std::string_view kind);

inline int64_t ceilDivide(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
/// Bytes of `count` floats rounded up so that what follows is 64-byte aligned.
inline uint64_t floatBytes(int64_t count) {
  return (static_cast<uint64_t>(count) * 4 + 63) / 64 * 64;
}

/// A stage that runs body(begin, end) over [0, count) in pieces of `grain`.
template <typename Body> Stage rangeStage(int64_t count, int64_t grain, Body body) {
  return {ceilDivide(count, grain),
          [=](const Tile &tile) { body(tile.index * grain, std::min(count, (tile.index + 1) * grain)); }};
}

} // namespace sluice::cpu
