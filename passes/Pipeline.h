// The pipeline from a parsed graph to a planned program, up to any phase.
#pragma once

#include "passes/Phases.h"
#include "runtime/abi/BreakEven.h"

#include <cstdint>
#include <functional>
#include <string>

namespace mlir {
class OpPassManager;
}

namespace sluice {

/// The break-even of a masked matrix [outputs, inputs].
using BreakEvenSource = std::function<BreakEven(const MaskedShape &)>;

/// What a compilation may choose. Everything else is in the module.
struct PipelineOptions {
  std::string bindings;              // sizes of named dimensions: "batch=8,seq=256"
  std::string precision = "float32"; // see choose-precision
  int64_t saveBudget = 0;            // bytes for values saved for the backward; 0: no limit
  BreakEvenSource breakEven;         // empty: the default of runtime/abi/BreakEven.h
  bool cuda = false;                 // the program is for CUDA too: remarks say what its library does
  bool storeKept = true;             // run store-kept; false where a device knows no kernels that skip zeros
};

/// Adds the passes of all phases after *parse* up to `to`, included; each phase ends with verify-phase.
void buildPipeline(mlir::OpPassManager &manager, Phase to, const PipelineOptions &options);
/// Adds the passes of one phase with its verifier. `phase` is not Parse: frontends do that.
void addPhase(mlir::OpPassManager &manager, Phase phase, const PipelineOptions &options);

/// The passes of the last two phases, without verifier.
void addFormKernelsPasses(mlir::OpPassManager &manager);
void addPlanPasses(mlir::OpPassManager &manager);

/// Registers `--sluice-to-phase="phase=NAME bindings=batch=8,seq=256 budget=BYTES"` for pass tools.
void registerPipelines();

} // namespace sluice
