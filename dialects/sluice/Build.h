// Building blocks for decompositions and adjoints: maps from a scalar function, exact constants, row sums.
#pragma once

#include "dialects/sluice/Sluice.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace sluice {

/// A scalar function: sees one scalar an operand, returns one scalar.
using ScalarFunction =
    llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::Location, mlir::ValueRange scalars)>;

/// A `map` over `inputs` whose body is written by `body`; the result's shape is the broadcast of the inputs'.
MapOp buildMap(mlir::OpBuilder &builder, mlir::Location loc, mlir::ValueRange inputs, ScalarFunction body);

/// The derivative of `body` with respect to input `index`, times `cotangent` (of the result's shape): one new
/// map that computes again what it needs. Null if the derivative is zero everywhere; failure if an op of the
/// body has no rule (reported at `loc`). The result has the map's shape; sum it to the input's with
/// reduceLike.
mlir::FailureOr<mlir::Value> buildMapAdjoint(mlir::OpBuilder &builder, mlir::Location loc,
                                             mlir::ValueRange inputs, ScalarFunction body, unsigned index,
                                             mlir::Value cotangent);

/// Name of the attribute of an `arith.constant` in a map's body that holds the number before it was rounded
/// to the body's type: the float64 meaning reads it, kernels read the rounded one.
inline constexpr llvm::StringLiteral exactAttributeName = "sluice.exact";

/// `reduce` over the last axis; `kind` is sum or max.
mlir::Value reduceRows(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x,
                       llvm::StringRef kind = "sum");

/// Writes scalar arithmetic inside a map's body.
class Scalars {
public:
  Scalars(mlir::OpBuilder &builder, mlir::Location loc) : builder(builder), loc(loc) {}
  mlir::Value constant(double value, mlir::Type type);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value subtract(mlir::Value a, mlir::Value b);
  mlir::Value multiply(mlir::Value a, mlir::Value b);
  mlir::Value multiply(mlir::Value a, double b) { return multiply(a, constant(b, a.getType())); }
  mlir::Value divide(mlir::Value a, mlir::Value b);
  mlir::Value negate(mlir::Value a);
  mlir::Value maximum(mlir::Value a, mlir::Value b);
  mlir::Value exponential(mlir::Value a);
  mlir::Value greater(mlir::Value a, mlir::Value b);
  mlir::Value equal(mlir::Value a, mlir::Value b);
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);
  /// 1 / (1 + exp(-a)).
  mlir::Value sigmoid(mlir::Value a);

  mlir::OpBuilder &builder;
  mlir::Location loc;
};

} // namespace sluice
