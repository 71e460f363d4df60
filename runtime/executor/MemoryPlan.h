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

/// The arenas as an aligned table with a total, one line an arena.
std::string formatMemoryPlan(const ExecutableDescription &description);

/// OK when the plan fits into `limit` bytes (0: no limit known); otherwise a usageError with the plan's
/// table.
Status checkMemoryPlan(const ExecutableDescription &description, uint64_t limit, const std::string &device);

} // namespace sluice
