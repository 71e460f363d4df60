#include "runtime/device/cudasim/execute/Grid.h"

#include "runtime/device/cudasim/execute/Block.h"

#include <algorithm>
#include <cfenv>
#include <numeric>
#include <random>

namespace sluice::cudasim {

namespace {

/// The order in which blocks start: natural for seed 0, else a permutation.
std::vector<uint64_t> blockOrder(uint64_t blocks, uint64_t seed) {
  std::vector<uint64_t> order;
  if (seed == 0)
    return order;
  order.resize(blocks);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(seed);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

} // namespace

Grid::Grid(const LaunchRequest &request, DeviceMemory &memory, const Settings &settings, FindingLog &log)
    : request(request), kernel(*request.kernel), memory(memory), settings(settings), log(log),
      allocations(memory.allocations()),
      threadsPerBlock(request.block[0] * request.block[1] * request.block[2]),
      blocks(uint64_t(request.grid[0]) * request.grid[1] * request.grid[2]) {}

void Grid::fail(Fault what) {
  Fault none = Fault::None;
  fault.compare_exchange_strong(none, what);
  if (!checks(Check::Memory) || what == Fault::NoProgress || what == Fault::Trap)
    stop.store(true, std::memory_order_relaxed);
}

Fault Grid::run(ThreadPool &pool) {
  Footprint footprint;
  // An awaited flag may come from a block with a lower index only: that order must stay.
  const std::vector<uint64_t> order = blockOrder(blocks, kernel.ordered ? 0 : settings.seed);
  const bool sideBySide = !kernel.ordered && !checks(Check::Race) && pool.threads() > 1 && blocks > 1;
  const auto runRange = [&](uint64_t begin, uint64_t end) {
    fenv_t environment;
    std::fegetenv(&environment);
    std::fesetenv(FE_DFL_ENV); // the caller may flush denormals
    {
      Block block(*this);
      for (uint64_t i = begin; i < end && !stopped(); ++i)
        block.run(order.empty() ? i : order[i]);
      std::lock_guard lock(mutex);
      statistics.add(block.statistics);
      footprint.join(block.footprint);
    }
    std::fesetenv(&environment);
  };
  if (!sideBySide) {
    runRange(0, blocks);
  } else {
    const uint64_t pieces = std::min<uint64_t>(blocks, uint64_t(pool.threads()) * 8);
    pool.forEach(static_cast<int64_t>(pieces), [&](int64_t piece, int) {
      runRange(blocks * piece / pieces, blocks * (piece + 1) / pieces);
    });
  }
  statistics.distinctLoadBytes = footprint.loadedBytes();
  statistics.distinctStoreBytes = footprint.storedBytes();
  return fault.load();
}

} // namespace sluice::cudasim
