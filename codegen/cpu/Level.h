// The instruction set levels of x86-64 that kernels are generated for.
#pragma once

#include "runtime/abi/Kernel.h"
#include "runtime/support/Status.h"

#include <optional>
#include <string>

namespace sluice::cpu {

struct CpuLevel {
  uint32_t number = SLUICE_CPU_X86_64_V3;                                         // enum SluiceCpuLevel
  int64_t vectorWidth() const { return number >= SLUICE_CPU_X86_64_V4 ? 16 : 8; } // float32 elements
  std::string processor() const { return concat("x86-64-v", number); }            // LLVM's name
  std::string target() const { return concat("cpu:", processor()); }              // the executable's name
};

/// The highest supported level that this machine can run, at least v3.
CpuLevel hostLevel();
/// "v3", "v4" or "host" as a level. Errors: any other name (usage).
StatusOr<CpuLevel> levelByName(std::string_view name);

} // namespace sluice::cpu
