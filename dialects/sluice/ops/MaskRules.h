// What all ops with a mask check and count.
#pragma once

#include "dialects/sluice/ops/Answers.h"

namespace sluice {

inline MaskType maskTypeOf(mlir::Value value) {
  return llvm::cast<MaskType>(value.getType());
}
/// Checks that the mask has exactly the shape of `tensor`, which is called `name`.
mlir::LogicalResult requireMask(mlir::Operation *op, mlir::Value mask, mlir::Value tensor,
                                llvm::StringRef name);
/// Whether a product of every token with a matrix under `mask` is faster when it skips the zeros
/// (runtime/abi/Tiles.h).
bool skippingPays(MaskType mask);
/// Set by *lower-masks* on a product whose kernel skips the zeros; the others run densely.
inline constexpr llvm::StringLiteral skipZerosAttributeName = "sluice.skip_zeros";
/// How the command of `op`, a product with `mask`, treats zeros: `skip_zeros` and the largest number of kept
/// weights.
void setMaskedKernel(mlir::Operation *op, mlir::Value mask, mlir::NamedAttrList &attributes);

/// Checks that `value` is one 64-bit integer.
mlir::LogicalResult requireInteger(mlir::Operation *op, llvm::StringRef name, mlir::Value value);

} // namespace sluice
