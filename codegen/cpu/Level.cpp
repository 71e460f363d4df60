#include "codegen/cpu/Level.h"

namespace sluice::cpu {

CpuLevel hostLevel() {
  bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512vl");
  return {v4 ? SLUICE_CPU_X86_64_V4 : SLUICE_CPU_X86_64_V3};
}

StatusOr<CpuLevel> levelByName(std::string_view name) {
  if (name == "host")
    return hostLevel();
  if (name == "v3")
    return CpuLevel{SLUICE_CPU_X86_64_V3};
  if (name == "v4")
    return CpuLevel{SLUICE_CPU_X86_64_V4};
  return usageError("unknown CPU level '", name, "': expected v3, v4 or host");
}

} // namespace sluice::cpu
