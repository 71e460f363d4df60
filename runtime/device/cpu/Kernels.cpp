#include "runtime/device/cpu/Kernels.h"

#include <unordered_map>

namespace sluice::cpu {

PrepareFunction findKernel(std::string_view kind) {
  static const auto *table = new std::unordered_map<std::string_view, PrepareFunction>{
#define SLUICE_CPU_ENTRY(kind, function) {#kind, function},
      SLUICE_COMMAND_KINDS(SLUICE_CPU_ENTRY)
#undef SLUICE_CPU_ENTRY
  };
  auto found = table->find(kind);
  return found == table->end() ? nullptr : found->second;
}

} // namespace sluice::cpu
