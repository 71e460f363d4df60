// An LLVM module of kernels as an object file for one CPU level.
#pragma once

#include "codegen/cpu/Level.h"

#include "llvm/IR/Module.h"

#include <string>
#include <vector>

namespace sluice::cpu {

/// Adds the library's table (runtime/abi/Kernel.h) for the functions `names` and the query function that
/// returns it.
void addKernelTable(llvm::Module &module, const std::vector<std::string> &names, CpuLevel level);

/// Optimises and compiles `module` to a relocatable ELF object. Errors: LLVM lacks the x86 target (failure).
StatusOr<std::string> compileObject(llvm::Module &module, CpuLevel level);

} // namespace sluice::cpu
