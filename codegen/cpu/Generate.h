// Generated kernels for the CPU: from kernel ops to an image that the runtime loads.
#pragma once

#include "codegen/cpu/LowerToLlvm.h"

namespace sluice::cpu {

struct GeneratedKernels {
  std::string target; // "cpu:x86-64-v3"
  std::string image;  // an ELF shared object of the kernel ABI
  std::string source; // the kernels as LLVM IR before optimisation, if asked for
};

/// Compiles `kernels` (distinct names) for `level`. Errors of kernels are emitted at them and come back as a
/// failure.
StatusOr<GeneratedKernels> generateKernels(llvm::ArrayRef<NamedKernel> kernels, CpuLevel level,
                                           bool keepSource = false);

} // namespace sluice::cpu
