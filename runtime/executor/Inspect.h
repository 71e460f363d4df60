// The text of `inspect`: what an executable holds, for people.
#pragma once

#include "runtime/schema/ExecutableDescription.h"

#include <string>

namespace sluice {

struct InspectOptions {
  bool allCommands = false; // every command on a line of its own instead of groups
  int largestTensors = 10;  // how many of the largest state tensors are named
};

/// Header, memory map, entry points, commands, kernels and ledger as aligned tables of at most 100 columns.
std::string inspectExecutable(const Executable &executable, const InspectOptions &options = {});

} // namespace sluice
