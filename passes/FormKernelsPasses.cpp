#include "passes/Passes.h"
#include "passes/Pipeline.h"

#include "mlir/Pass/PassManager.h"

namespace sluice {

void addFormKernelsPasses(mlir::OpPassManager &manager) {
  // Before decomposition: the chain is recognised by its named ops.
  manager.addPass(createFuseCrossEntropy());
  // Kernels are made of primitives, so everything without a command of its own must become primitive first.
  manager.addPass(createDecomposeOps());
  manager.addPass(createFormKernels());
  // What is left over is known only now; all of it goes into one report.
  manager.addPass(createCheckLowering());
}

} // namespace sluice
