#include "frontends/cli/LaunchReport.h"

#include "runtime/device/cuda/LaunchPlan.h"
#include "runtime/device/cuda/MaskBlocks.h"

#include <algorithm>
#include <map>

namespace sluice::cli {
namespace {

std::string fit(const std::string &text, size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 2) + "..";
}

/// 1234567 as "1,234,567".
std::string grouped(uint64_t number) {
  std::string text = concat(number);
  for (size_t place = text.size(); place > 3; place -= 3)
    text.insert(place - 3, ",");
  return text;
}

/// "rows/64 x columns/64"; axes with one block whatever the sizes are left out.
std::string ruleOf(const cuda::Launch &launch) {
  std::string text;
  for (const std::string &rule : launch.rules)
    if (rule != "1")
      text += concat(text.empty() ? "" : " x ", rule);
  return concat(text.empty() ? "1" : text, " blocks of ", launch.threads);
}

std::string gridOf(const uint64_t (&grid)[3]) {
  return grid[2] > 1   ? concat(grid[0], "x", grid[1], "x", grid[2])
         : grid[1] > 1 ? concat(grid[0], "x", grid[1])
                       : concat(grid[0]);
}

/// Launches of one kernel by one rule.
struct KernelLaunches {
  int count = 0;
  uint64_t smallest[3] = {}, largest[3] = {};
  bool orCublasLt = false;

  void add(const cuda::Launch &launch) {
    auto blocks = [](const uint64_t (&grid)[3]) { return grid[0] * grid[1] * grid[2]; };
    if (count == 0 || blocks(launch.grid) < blocks(smallest))
      std::copy_n(launch.grid, 3, smallest);
    if (count == 0 || blocks(launch.grid) > blocks(largest))
      std::copy_n(launch.grid, 3, largest);
    orCublasLt = orCublasLt || launch.product.has_value();
    ++count;
  }
};

/// Commands of one kind.
struct CommandGroup {
  int count = 0;
  uint64_t flops = 0, bytes = 0;
  std::map<std::pair<std::string, std::string>, KernelLaunches> kernels; // by name and rule
};

Status addEntry(std::string &out, const ExecutableDescription &model, const EntryPoint &entry) {
  std::vector<uint64_t> arenas;
  arenas.reserve(model.arenas.size());
  for (const ArenaDescription &arena : model.arenas)
    arenas.push_back(arena.bytes);
  SLUICE_ASSIGN_OR_RETURN(std::vector<cuda::CommandLaunches> planned,
                          cuda::planLaunches(entry.commands, arenas));
  std::map<std::string, CommandGroup> groups;
  int launches = 0;
  for (size_t index = 0; index < entry.commands.size(); ++index) {
    const Command &command = entry.commands[index];
    StatusOr<std::string> kernel = command.text("kernel");
    CommandGroup &group = groups[command.kind == "launch" && kernel.ok() ? *kernel : command.kind];
    ++group.count;
    group.flops += index < entry.flops.size() ? std::strtoull(entry.flops[index].c_str(), nullptr, 10) : 0;
    group.bytes += command.inputBytes() + command.outputBytes() - cuda::droppedBytes(command);
    for (const cuda::Launch &launch : planned[index].launches) {
      group.kernels[{launch.kernel, ruleOf(launch)}].add(launch);
      ++launches;
    }
  }
  out +=
      absl::StrFormat("\n%-50s %8s %18s %18s\n",
                      concat(entry.name, ": ", entry.commands.size(), " commands, ", launches, " launches"),
                      "commands", "FLOPs", "bytes");
  for (const auto &[name, group] : groups) {
    out += absl::StrFormat("  %-48s %8d %18s %18s\n", fit(name, 48), group.count, grouped(group.flops),
                           grouped(group.bytes));
    for (const auto &[key, kernel] : group.kernels) {
      const std::string low = gridOf(kernel.smallest), high = gridOf(kernel.largest);
      out += fit(concat("    ", kernel.count, " ", key.first, kernel.orCublasLt ? " or cuBLASLt" : "", ", ",
                        key.second, ": ", low, low == high ? "" : concat(" to ", high)),
                 100) +
             "\n";
    }
  }
  return absl::OkStatus();
}

} // namespace

StatusOr<std::string> launchReport(const Executable &executable) {
  std::string out =
      "\nLaunches of one run of each entry point. Blocks are a function of sizes, each quotient rounded\n"
      "up. FLOPs are the useful ones of the commands' products, of a mask those with kept weights; bytes\n"
      "are of their operands, read and written once, without the blocks of weights that a kernel skips.\n";
  for (const EntryPoint &entry : executable.description.entries)
    SLUICE_RETURN_IF_ERROR(addEntry(out, executable.description, entry));
  return out;
}

} // namespace sluice::cli
