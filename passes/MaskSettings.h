// What the training section says about moving masks, for the passes that build the optimizer and the update.
#pragma once

#include "dialects/sluice/Sluice.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/LogicalResult.h"

#include <string>
#include <vector>

namespace sluice {

/// How the masks of one rule move.
struct MaskRule {
  std::string method = "static"; // static, set, rigl or gradual
  std::string drop = "magnitude", grow = "none";

  bool moves() const { return method != "static"; }
};

/// `sluice.training = {sparsity = {...}}` (docs/training.md); without it masks are static.
struct MaskSettings {
  std::vector<MaskRule> rules = {MaskRule()};
  bool restarts = false;        // weights of masks that move carry the steps since they were grown
  double restart = 0, ramp = 0; // age of a grown weight; steps over which its first moment is damped

  bool moves() const;
  /// The rule of a mask's state: number `sluice.rule`, or the only one.
  const MaskRule &of(StateOp mask) const;
  bool ages(StateOp mask) const { return restarts && of(mask).moves(); }
  /// Errors are emitted at the module.
  llvm::LogicalResult read(mlir::ModuleOp module);
};

} // namespace sluice
