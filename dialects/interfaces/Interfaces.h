// The op interfaces of Interfaces.td and the small types in their signatures.
#pragma once

#include "dialects/interfaces/Counts.h"
#include "dialects/interfaces/Evaluation.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"

namespace sluice {

/// Cost of computing an op's results again.
enum class RecomputeCost {
  Free,   // no arithmetic: views and copies
  Cheap,  // elementwise or row-wise work
  Costly, // contractions
  Never,  // must not be computed again (reads state, or decides: a recomputed selection could differ)
};

/// What an adjoint works with: the builder, the cotangents of the results, and a sink for those of the
/// operands.
class AdjointBuilder {
public:
  virtual ~AdjointBuilder() = default;
  mlir::OpBuilder &builder;
  mlir::Location loc;

  /// The cotangent of result `index`, or null if nothing downstream depends on it (read as zero).
  virtual mlir::Value cotangent(unsigned resultIndex) const = 0;
  /// Whether operand `index` leads to a parameter, so that its cotangent is wanted.
  virtual bool needed(unsigned operandIndex) const = 0;
  /// Hands over operand `index`'s cotangent; fan-in is summed by the caller. Call at most once per operand.
  virtual void setOperandCotangent(unsigned operandIndex, mlir::Value cotangent) = 0;

protected:
  AdjointBuilder(mlir::OpBuilder &builder, mlir::Location loc) : builder(builder), loc(loc) {}
};

} // namespace sluice

#include "dialects/interfaces/Interfaces.h.inc"
