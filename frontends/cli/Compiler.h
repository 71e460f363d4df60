// The compiler as the commands use it: load a model from any form, run phases, make an executable.
#pragma once

#include "passes/Phases.h"
#include "passes/Pipeline.h"
#include "runtime/schema/ExecutableDescription.h"
#include "runtime/support/Status.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <memory>
#include <string>
#include <vector>

namespace sluice::cli {

/// A model at phase *parse*, with the sizes that its source suggests for `batch` and `seq`.
struct LoadedModel {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  int64_t batch = 8, sequence = 256;
  std::string spec; // resolved spec, empty if it came from none
};

struct CompilerOptions {
  std::string bindings;                 // "batch=8,seq=256"; empty: the model's own
  std::string saveTemps;                // folder for the module after each phase; empty: none
  std::vector<std::string> cudaTargets; // "cuda:sm_80", beside the CPU, which is always a target
  int64_t saveBudget = 0;               // bytes for activations kept for the backward; 0: no limit
  bool explain = false;                 // print what was fused, saved, recomputed, and why not
  bool timing = false;                  // print seconds per phase
};

/// One compiler with its MLIR context; diagnostics go to standard error as one line each.
class Compiler {
public:
  Compiler();
  ~Compiler();
  mlir::MLIRContext &context() { return *mlirContext; }

  /// MODEL: a spec (.yaml, .yml), a graph (.mlir) or a Hugging Face config.json or its folder. Not an
  /// executable.
  StatusOr<LoadedModel> load(const std::string &model, const std::vector<std::string> &assignments = {},
                             int64_t vocabulary = 0);
  /// Runs the phases after *parse* up to `to`, included.
  Status run(LoadedModel &model, Phase to, const CompilerOptions &options);
  /// Runs all phases and packages the result: the bytes of a .slx file.
  StatusOr<std::string> compile(LoadedModel &model, const CompilerOptions &options);

private:
  std::unique_ptr<mlir::MLIRContext> mlirContext;
};

/// Whether `path` names an executable.
bool isExecutable(const std::string &path);
/// The module as text, values named after the model.
std::string printModule(mlir::ModuleOp module);

} // namespace sluice::cli
