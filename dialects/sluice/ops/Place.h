// Where an op stands in the model, for messages that a person reads.
#pragma once

#include "mlir/IR/Operation.h"

#include <string>

namespace sluice {

/// The path of the op's origin (`layers.0.moe`), else the names of the enclosing repeats and scopes
/// (`layers.moe`), else the name of the graph; empty outside of a graph.
std::string placeOf(mlir::Operation *op);

/// `op->emitOpError()` followed by the op's place: `'sluice.route' op in layers.0.moe: `.
mlir::InFlightDiagnostic emitPlacedError(mlir::Operation *op);

} // namespace sluice
