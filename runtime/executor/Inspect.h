// The text of `inspect`: what an executable holds, for people.
#pragma once

#include "runtime/schema/ExecutableDescription.h"
#include "runtime/support/Status.h"

#include <string>

namespace sluice {

struct InspectOptions {
  bool allCommands = false; // every command on a line of its own instead of groups
  int largestTensors = 10;  // how many of the largest state tensors are named
};

/// The source of the unit that defines kernel `name`, as the executable keeps it. Error (usage): no kernel of
/// that name with source; the message lists those that are there.
StatusOr<std::string> kernelSource(const Executable &executable, const std::string &name);

/// Header, memory map, entry points, commands, kernels and ledger as aligned tables of at most 100 columns.
std::string inspectExecutable(const Executable &executable, const InspectOptions &options = {});

} // namespace sluice
