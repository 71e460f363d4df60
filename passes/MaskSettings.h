// What the training section says about moving masks, for the passes that build the optimizer and the update.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/LogicalResult.h"

#include <string>

namespace sluice {

/// `sluice.training = {sparsity = {...}}` (docs/training.md); without it masks are static.
struct MaskSettings {
  std::string method = "static"; // static, set, rigl or gradual
  std::string drop = "magnitude", grow = "none";
  bool ages = false;            // weights carry the steps since they were grown
  double restart = 0, ramp = 0; // age of a grown weight; steps over which its first moment is damped

  bool moves() const { return method != "static"; }
  /// Errors are emitted at the module.
  llvm::LogicalResult read(mlir::ModuleOp module);
};

} // namespace sluice
