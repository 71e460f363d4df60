// What the passes of the plan phase ask about values: where they come from, how large they are, who reads
// them.
#pragma once

#include "dialects/plan/Plan.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"

namespace sluice {

/// The value whose memory `value` is: reshapes are looked through.
mlir::Value storageOf(mlir::Value value);
/// Bytes of a tensor, of a routing buffer or of a mask's bits.
int64_t bytesOf(mlir::Type type);
/// Bytes rounded up to the alignment of slots, 64.
inline int64_t alignedBytes(int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}
/// Ops that read `value` or a reshape of it.
void readersOf(mlir::Value value, llvm::SmallVectorImpl<mlir::Operation *> &readers);
/// The state that a value is the present content of, or null.
mlir::FlatSymbolRefAttr stateOf(mlir::Value value);

/// The states of a module by name: a module has thousands, so nobody searches for one.
using StateMap = llvm::DenseMap<mlir::StringAttr, StateOp>;
StateMap stateMap(mlir::ModuleOp module);

/// The generated kernel inside a `launch` command, or null.
KernelOp kernelOf(plan::CommandOp command);

/// The commands of a graph in order; numbers are positions in this list.
llvm::SmallVector<plan::CommandOp> commandsOf(GraphOp graph);

/// Dependencies on earlier commands, without those that others imply.
class Dependencies {
public:
  /// The wanted earlier commands of the next command, in any order; returns what remains, increasing.
  llvm::SmallVector<int64_t> add(llvm::ArrayRef<int64_t> wanted);

private:
  std::vector<llvm::BitVector> reached; // for each command, the commands that must come before it
};

} // namespace sluice
