// Generated kernels: an image (an ELF shared object in memory) becomes functions that launch commands find by
// name.
#pragma once

#include "runtime/abi/Kernel.h"
#include "runtime/device/Device.h"

#include <map>

namespace sluice::cpu {

struct LoadedKernel {
  SluiceKernelFunction function;
  uint64_t scratchBytes;
};

using LoadedKernels = std::map<std::string, LoadedKernel, std::less<>>;

/// The images that a device has loaded; unloads them on destruction.
class KernelImages {
public:
  KernelImages() = default;
  KernelImages(const KernelImages &) = delete;
  KernelImages &operator=(const KernelImages &) = delete;
  ~KernelImages();
  /// Errors: not a shared object of this kernel ABI, or the host lacks instructions that it needs.
  Status load(const KernelImage &image);
  const LoadedKernels &kernels() const { return byName; }

private:
  std::vector<void *> libraries;
  std::vector<int> files; // one a library
  LoadedKernels byName;
};

} // namespace sluice::cpu
