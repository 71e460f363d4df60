// Creation and registration of all passes of Passes.td.
#pragma once

#include "dialects/sluice/Sluice.h"
#include "passes/Pipeline.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"

namespace sluice {

#define GEN_PASS_DECL
#include "passes/Passes.h.inc"

/// lower-masks with break-evens from `source`, or the default one without; `cuda`: remarks say what CUDA's
/// library does too.
std::unique_ptr<mlir::Pass> createLowerMasks(BreakEvenSource source, bool cuda);

#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

} // namespace sluice
