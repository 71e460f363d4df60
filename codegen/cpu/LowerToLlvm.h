// Kernels as MLIR (scf, arith, math, vector over pointers), and that as one LLVM module.
#pragma once

#include "codegen/cpu/Level.h"
#include "codegen/kernel/Identity.h"
#include "dialects/sluice/Sluice.h"

#include "llvm/IR/Module.h"

#include <memory>
#include <string>
#include <vector>

namespace sluice::cpu {

/// One function a kernel, with the signature of runtime/abi/Kernel.h. Errors are emitted at the kernels.
mlir::FailureOr<std::unique_ptr<llvm::Module>> lowerKernels(llvm::ArrayRef<NamedKernel> kernels,
                                                            CpuLevel level, llvm::LLVMContext &context);

} // namespace sluice::cpu
