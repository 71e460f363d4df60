// The scalar ops that a map's body may use: one table with the class that each counts in, its float64 meaning
// and its derivative.
#pragma once

#include "dialects/sluice/Build.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace sluice {

/// Cotangents of scalars while a body is walked backwards.
class ScalarAdjoint : public Scalars {
public:
  ScalarAdjoint(mlir::OpBuilder &builder, mlir::Location loc) : Scalars(builder, loc) {}
  /// Marks a scalar whose cotangent is wanted; results of ops over such scalars are marked by `spread`.
  void mark(mlir::Value scalar) { active.insert(scalar); }
  void spread(mlir::Operation &op);
  bool isActive(mlir::Value scalar) const { return active.contains(scalar); }
  /// Adds to a scalar's cotangent; nothing happens for one that is not wanted.
  void accumulate(mlir::Value scalar, mlir::Value cotangent);
  /// The sum so far, or null.
  mlir::Value cotangent(mlir::Value scalar) const { return sums.lookup(scalar); }

private:
  llvm::DenseSet<mlir::Value> active;
  llvm::DenseMap<mlir::Value, mlir::Value> sums;
};

/// What one kind of scalar op means.
struct ScalarRule {
  llvm::StringLiteral name;
  /// The class in which one execution counts; null: free (constants; sign changes, which round nothing).
  Count ClassCounts::*countedAs;
  double (*evaluate)(mlir::Operation *op, const double *operands);
  /// Hands `cotangent` of the op's result on to its operands; null: nothing flows (constants, comparisons).
  void (*derive)(ScalarAdjoint &adjoint, mlir::Operation *op, mlir::Value cotangent);
};

/// The rule for an op, or null.
const ScalarRule *scalarRule(mlir::Operation *op);

/// A body compiled for evaluation: one array of values, filled in order.
class ScalarProgram {
public:
  /// Fails if an op has no rule; the error is emitted at the op.
  static mlir::FailureOr<ScalarProgram> compile(mlir::Block &body);
  double run(llvm::ArrayRef<double> arguments);
  /// Counts of one execution.
  ClassCounts counts() const;

private:
  struct Step {
    const ScalarRule *rule;
    mlir::Operation *op;
    llvm::SmallVector<unsigned, 3> operands;
  };
  llvm::SmallVector<Step> steps;
  llvm::SmallVector<double> values;
  unsigned arguments = 0, result = 0;
};

} // namespace sluice
