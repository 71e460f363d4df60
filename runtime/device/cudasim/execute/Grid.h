// A kernel launch: its blocks run one after the other, or side by side where nothing can tell the difference.
#pragma once

#include "runtime/device/cudasim/Settings.h"
#include "runtime/device/cudasim/checks/RaceCheck.h"
#include "runtime/device/cudasim/execute/Statistics.h"
#include "runtime/device/cudasim/memory/DeviceMemory.h"
#include "runtime/device/cudasim/program/Program.h"
#include "runtime/support/ThreadPool.h"

#include <atomic>
#include <mutex>

namespace sluice::cudasim {

struct LaunchRequest {
  std::shared_ptr<const Kernel> kernel;
  uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  uint32_t dynamicSharedBytes = 0;
  std::vector<uint8_t> parameters; // as the kernel lays them out
  std::string label;               // what the program calls the work, for findings
};

enum class Fault : uint8_t { None, IllegalAddress, Misaligned, NoProgress, Trap };

/// What the blocks of a launch share.
class Grid {
public:
  Grid(const LaunchRequest &request, DeviceMemory &memory, const Settings &settings, FindingLog &log);
  /// Runs all blocks. Results do not depend on the pool's number of threads.
  Fault run(ThreadPool &pool);

  const LaunchRequest &request;
  const Kernel &kernel;
  DeviceMemory &memory;
  const Settings &settings;
  FindingLog &log;
  const std::shared_ptr<const AllocationList> allocations;
  const uint32_t threadsPerBlock;
  const uint64_t blocks;
  RaceHistory globalHistory;
  SyncPoints syncPoints;
  Statistics statistics;

  bool checks(Check check) const { return settings.checks.has(check); }
  /// Notes a fault; the first ends the launch, unless the memory check wants to see all of them.
  void fail(Fault fault);
  bool stopped() const { return stop.load(std::memory_order_relaxed); }

private:
  std::atomic<bool> stop{false};
  std::atomic<Fault> fault{Fault::None};
  std::mutex mutex;
};

} // namespace sluice::cudasim
