// A planned module as the plain structures of an executable, without its kernels' code.
#pragma once

#include "runtime/schema/ExecutableDescription.h"

#include "mlir/IR/BuiltinOps.h"

namespace sluice {

/// Arenas, state, entry points with their commands, bindings, training section and model configuration of
/// `planned`. Errors: a value without a place, a setting that is neither number nor text (failure).
StatusOr<ExecutableDescription> describePlan(mlir::ModuleOp planned);

} // namespace sluice
