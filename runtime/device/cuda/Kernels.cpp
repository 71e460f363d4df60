#include "runtime/device/cuda/Kernels.h"

#include <unordered_map>

namespace sluice::cuda {

PrepareFunction findKernel(std::string_view kind) {
  static const auto *table = new std::unordered_map<std::string_view, PrepareFunction>{
#define SLUICE_CUDA_ENTRY(kind, function) {#kind, function},
      SLUICE_COMMAND_KINDS(SLUICE_CUDA_ENTRY)
#undef SLUICE_CUDA_ENTRY
  };
  auto found = table->find(kind);
  return found == table->end() ? nullptr : found->second;
}

StatusOr<const std::byte *> keepConstant(PrepareContext &context, PreparedKernel &kernel,
                                         const std::vector<float> &values) {
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<CudaMemory> memory,
                          CudaMemory::allocate(context.device, values.size() * sizeof(float)));
  SLUICE_RETURN_IF_ERROR(memory->write(0, values.data(), values.size() * sizeof(float)));
  kernel.constants.push_back(std::move(memory));
  return kernel.constants.back()->address();
}

} // namespace sluice::cuda
