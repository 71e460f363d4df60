// What many adjoints need: summing a cotangent back to a broadcast operand's shape, and zeros.
#pragma once

#include "dialects/sluice/Sluice.h"

namespace sluice {

/// Sums `value` over the axes along which `type` was broadcast (aligned at the last axis), giving `type`'s
/// shape.
mlir::Value reduceLike(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value, mlir::Type type);
/// Zeros of `type`'s static shape.
mlir::Value zerosLike(mlir::OpBuilder &builder, mlir::Location loc, mlir::Type type);
/// `value` under the static shape of `type`; the value itself if it has that shape.
mlir::Value reshapeLike(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value, mlir::Type type);

} // namespace sluice
