// The end of the compiler: a planned module as the bytes of an executable file.
#pragma once

#include "codegen/cpu/Level.h"
#include "runtime/support/Status.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace sluice {

struct CompileOptions {
  cpu::CpuLevel level = cpu::hostLevel();
  std::string model;                     // the model's name; empty: the module's symbol name or "model"
  std::string producer = "sluice 0.1.0"; // program and version
  std::string ledger;                    // JSON object, or empty
  std::vector<std::string> cudaTargets;  // "cuda:sm_80"; PTX for the lowest is added
  bool keepSource = false;               // keep the kernels' LLVM IR in the file, for reading
};

/// Generates the kernels of `planned` (a module after the *plan* phase), describes everything and serialises
/// it; the same module gives the same bytes. Errors: the module is not planned (failure), a kernel cannot be
/// generated (emitted at the kernel; failure), the description breaks a rule of the format.
StatusOr<std::string> compileToExecutable(mlir::ModuleOp planned, const CompileOptions &options);

} // namespace sluice
