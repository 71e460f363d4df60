// Small helpers that several passes share: origins, graphs by name, dead code.
#pragma once

#include "dialects/sluice/Sluice.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace sluice {

/// The graph `name` of the module, or null.
GraphOp findGraph(mlir::ModuleOp module, llvm::StringRef name);
/// The states of a role ("parameter", "gradient", ...) in module order.
llvm::SmallVector<StateOp> statesOf(mlir::ModuleOp module, llvm::StringRef role);

/// The same origin with another direction (forward, backward, recompute, update, initialize).
OriginAttr withDirection(OriginAttr origin, llvm::StringRef direction);
inline void setOrigin(mlir::Operation *op, OriginAttr origin) {
  op->setAttr(originAttributeName, origin);
}

/// Erases ops of the graph (and of nested bodies) whose results nobody uses and that have no effect but
/// reading.
void eraseDeadOps(GraphOp graph);
/// Erases inputs that nobody uses for which `mayErase(name)` holds.
void eraseUnusedInputs(GraphOp graph, llvm::function_ref<bool(llvm::StringRef)> mayErase);
/// The index of the returned value `name`, or -1.
int64_t outputIndex(GraphOp graph, llvm::StringRef name);
/// Keeps only the outputs for which `keep(name)` holds, in their order.
void filterOutputs(GraphOp graph, llvm::function_ref<bool(llvm::StringRef)> keep);

/// Creates an empty graph at the end of the module, with inputs of these names and types and no terminator
/// yet.
GraphOp createGraph(mlir::ModuleOp module, llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> inputNames,
                    llvm::ArrayRef<mlir::Type> inputTypes);
/// Ends a graph made by createGraph.
void createReturn(GraphOp graph, mlir::ValueRange values, llvm::ArrayRef<llvm::StringRef> names,
                  OriginAttr origin);

} // namespace sluice
