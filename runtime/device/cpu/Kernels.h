// The prepare functions of all command kinds, one file each beside this one; docs/commands.md says what they
// compute.
#pragma once

#include "runtime/device/CommandKinds.h"
#include "runtime/device/cpu/Kernel.h"

namespace sluice::cpu {

#define SLUICE_CPU_DECLARE(kind, function) StatusOr<PreparedKernel> function(PrepareContext &context);
SLUICE_COMMAND_KINDS(SLUICE_CPU_DECLARE)
#undef SLUICE_CPU_DECLARE

} // namespace sluice::cpu
