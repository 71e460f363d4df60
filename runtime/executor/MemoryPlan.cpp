#include "runtime/executor/MemoryPlan.h"

#include "runtime/support/File.h"

#include <algorithm>
#include <cstdlib>

namespace sluice {
namespace {

/// The number behind `key` in a text like "MemAvailable:   123 kB"; 0 when absent.
uint64_t numberAfter(const std::string &text, const std::string &key) {
  size_t found = text.find(key);
  return found == std::string::npos ? 0 : std::strtoull(text.c_str() + found + key.size(), nullptr, 10);
}

uint64_t numberIn(const std::string &path) {
  StatusOr<std::string> text = readFile(path);
  return text.ok() ? std::strtoull(text->c_str(), nullptr, 10) : 0; // "max" gives 0: no limit
}

} // namespace

uint64_t availableHostMemory() {
  uint64_t available = 0;
  if (StatusOr<std::string> text = readFile("/proc/meminfo"); text.ok())
    available = numberAfter(*text, "MemAvailable:") * 1024;
  // The root of this process's control group, version 2.
  uint64_t limit = numberIn("/sys/fs/cgroup/memory.max");
  if (limit > 0) {
    uint64_t used = std::min(limit, numberIn("/sys/fs/cgroup/memory.current"));
    // Page cache counts as used but can be given back.
    uint64_t cache = 0;
    if (StatusOr<std::string> text = readFile("/sys/fs/cgroup/memory.stat"); text.ok())
      cache = numberAfter(*text, "inactive_file ");
    uint64_t left = limit - used + std::min(used, cache);
    available = available == 0 ? left : std::min(available, left);
  }
  return available;
}

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
    table += absl::StrFormat("  %-24s %-12s %14d %12s\n", arena.name, std::string(arenaClassName(arena.lifetime)),
                             arena.bytes, formatBytes(arena.bytes));
  uint64_t total = plannedBytes(description);
  table += absl::StrFormat("  %-24s %-12s %14d %12s\n", "total", "", total, formatBytes(total));
  return table;
}

Status checkMemoryPlan(const ExecutableDescription &description, uint64_t limit, const std::string &device) {
  uint64_t total = plannedBytes(description);
  if (limit == 0 || total <= limit)
    return absl::OkStatus();
  return usageError("model '", description.model, "' on ", device, ": expected a plan of at most ", formatBytes(limit),
                    " (available memory), found ", formatBytes(total),
                    "; compile with a smaller batch or sequence\n", formatMemoryPlan(description));
}

} // namespace sluice
