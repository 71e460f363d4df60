#include "runtime/device/cuda/Kernels.h"

#include <unordered_map>

namespace sluice::cuda {

PrepareFunction findKernel(std::string_view kind) {
  static const auto *table = new std::unordered_map<std::string_view, PrepareFunction>{
#define SLUICE_CUDA_ENTRY(kind, function) {#kind, function},
      SLUICE_CUDA_KERNELS(SLUICE_CUDA_ENTRY)
#undef SLUICE_CUDA_ENTRY
  };
  auto found = table->find(kind);
  return found == table->end() ? nullptr : found->second;
}

} // namespace sluice::cuda
