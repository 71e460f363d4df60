// The two loop structures of generated kernels. Both fill a function body `(buffers, scratch, tile)`.
#pragma once

#include "codegen/cpu/ValueEmitter.h"
#include "codegen/kernel/Tiling.h"

namespace sluice::cpu {

/// A "rows" kernel: a tile is some rows (or a piece of the line, if the program is flat). A value that
/// depends on a row's sum is computed in a later pass over the row's columns; what it is made of is computed
/// again in each pass.
void emitRowsKernel(CodeBuilder &code, const KernelProgram &program, const KernelTiling &tiling,
                    llvm::ArrayRef<mlir::Value> buffers, mlir::Value tile);

/// A "columns" kernel: a tile is a block of columns; rows are summed in order, in blocks that bound the
/// rounding error.
void emitColumnsKernel(CodeBuilder &code, const KernelProgram &program, const KernelTiling &tiling,
                       llvm::ArrayRef<mlir::Value> buffers, mlir::Value tile);

} // namespace sluice::cpu
