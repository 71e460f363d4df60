#include "runtime/executor/MemoryPlan.h"

namespace sluice {
std::string formatBytes(uint64_t bytes) {
  static constexpr const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? concat(bytes, " B") : absl::StrFormat("%.2f %s", value, units[unit]);
}

uint64_t plannedBytes(const ExecutableDescription &description) {
  uint64_t total = 0;
  for (const ArenaDescription &arena : description.arenas)
    total += arena.bytes;
  return total;
}

std::string formatMemoryPlan(const ExecutableDescription &description) {
  std::string table = absl::StrFormat("  %-24s %-12s %14s %12s\n", "arena", "class", "bytes", "");
  for (const ArenaDescription &arena : description.arenas)
    table +=
        absl::StrFormat("  %-24s %-12s %14d %12s\n", arena.name, std::string(arenaClassName(arena.lifetime)),
                        arena.bytes, formatBytes(arena.bytes));
  uint64_t total = plannedBytes(description);
  table += absl::StrFormat("  %-24s %-12s %14d %12s\n", "total", "", total, formatBytes(total));
  return table;
}

Status checkMemoryPlan(const ExecutableDescription &description, uint64_t limit, const std::string &device) {
  uint64_t total = plannedBytes(description);
  if (limit == 0 || total <= limit)
    return absl::OkStatus();
  return usageError("model '", description.model, "' on ", device, ": expected a plan of at most ",
                    formatBytes(limit), " (available memory), found ", formatBytes(total),
                    "; compile with a smaller batch or sequence\n", formatMemoryPlan(description));
}

} // namespace sluice
