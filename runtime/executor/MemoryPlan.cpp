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

std::vector<WorkspaceBytes> plannedWorkspaces(const ExecutableDescription &description,
                                              const Device &device) {
  std::vector<uint64_t> arenas;
  arenas.reserve(description.arenas.size());
  for (const ArenaDescription &arena : description.arenas)
    arenas.push_back(arena.bytes);
  std::vector<WorkspaceBytes> workspaces;
  for (const EntryPoint &entry : description.entries) {
    StatusOr<uint64_t> bytes = device.workspaceBytes(entry.commands, arenas);
    if (bytes.ok() && *bytes > 0)
      workspaces.push_back({entry.name, *bytes});
  }
  return workspaces;
}

std::string formatMemoryPlan(const ExecutableDescription &description,
                             const std::vector<WorkspaceBytes> &workspaces) {
  std::string table = absl::StrFormat("  %-24s %-12s %14s %12s\n", "arena", "class", "bytes", "");
  auto line = [&](const std::string &name, std::string_view lifetime, uint64_t bytes) {
    table +=
        absl::StrFormat("  %-24s %-12s %14d %12s\n", name, std::string(lifetime), bytes, formatBytes(bytes));
  };
  uint64_t total = plannedBytes(description);
  for (const ArenaDescription &arena : description.arenas)
    line(arena.name, arenaClassName(arena.lifetime), arena.bytes);
  for (const WorkspaceBytes &workspace : workspaces) {
    line(workspace.entry, "workspace", workspace.bytes);
    total += workspace.bytes;
  }
  line("total", "", total);
  return table;
}

Status checkMemoryPlan(const ExecutableDescription &description,
                       const std::vector<WorkspaceBytes> &workspaces, uint64_t limit,
                       const std::string &device) {
  uint64_t total = plannedBytes(description);
  for (const WorkspaceBytes &workspace : workspaces)
    total += workspace.bytes;
  if (limit == 0 || total <= limit)
    return absl::OkStatus();
  return usageError("model '", description.model, "' on ", device, ": expected a plan of at most ",
                    formatBytes(limit), " (available memory), found ", formatBytes(total),
                    "; compile with a smaller batch or sequence\n",
                    formatMemoryPlan(description, workspaces));
}

} // namespace sluice
