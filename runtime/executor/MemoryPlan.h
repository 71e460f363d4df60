// How much memory a plan takes, and whether the machine has it.
#pragma once

#include "runtime/schema/ExecutableDescription.h"

#include <cstdint>
#include <string>

namespace sluice {

/// "1.50 GiB", "640 KiB", "12 B".
std::string formatBytes(uint64_t bytes);

/// Sum of the arenas.
uint64_t plannedBytes(const ExecutableDescription &description);

/// Memory beside the arenas: an entry point's workspace on a device.
struct WorkspaceBytes {
  std::string entry;
  uint64_t bytes = 0;
};

/// The workspaces of a device for the model's entry points; those that need none are left out, and those that
/// the device cannot prepare, which says why if they are ever run.
std::vector<WorkspaceBytes> plannedWorkspaces(const ExecutableDescription &description, const Device &device);

/// The arenas and workspaces as an aligned table with a total, one line each.
std::string formatMemoryPlan(const ExecutableDescription &description,
                             const std::vector<WorkspaceBytes> &workspaces = {});

/// OK when arenas and workspaces fit into `limit` bytes (0: no limit known); otherwise a usageError with the
/// plan's table.
Status checkMemoryPlan(const ExecutableDescription &description,
                       const std::vector<WorkspaceBytes> &workspaces, uint64_t limit,
                       const std::string &device);

} // namespace sluice
