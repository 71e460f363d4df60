// Bytes that ops move: by themselves, and at the borders of the kernels that hold them.
#pragma once

#include "dialects/interfaces/Counts.h"

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseSet.h"

namespace sluice {

/// Bytes of one op by itself: every operand read once, every result written once. A lookup reads the rows
/// that it takes, a product of experts the matrices of as many experts as there are rows; views move nothing.
Count bytesOf(mlir::Operation *op);

/// Counts bytes at borders, op by op in program order: of a kernel or command, only what enters (at the first
/// op that reads it) and what leaves. An op that no kernel holds moves what it moves by itself.
class BorderTraffic {
public:
  Count bytesOf(mlir::Operation *op);

private:
  mlir::Operation *unit = nullptr; // the outermost kernel or command whose ops are visited
  llvm::DenseSet<mlir::Value> charged;
};

} // namespace sluice
