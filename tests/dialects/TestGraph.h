// Small graphs from text, evaluated and differentiated op by op: the checks of ops use nothing but the ops'
// answers.
#pragma once

#include "dialects/sluice/Sluice.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/DenseMap.h"

#include <string>
#include <vector>

namespace sluice::test {

using Values = llvm::DenseMap<mlir::Value, HostTensor>;

/// One graph.
class TestGraph {
public:
  /// Parses a module with one graph; `valid()` is false, with `errors()`, if it does not parse or verify.
  explicit TestGraph(const std::string &text);
  bool valid() const { return static_cast<bool>(module); }
  const std::string &errors() const { return messages; }
  GraphOp graph();
  /// The ops of the body, without the terminator.
  std::vector<mlir::Operation *> ops();
  /// The only op of the body of this kind.
  template <typename Op> Op only() {
    for (mlir::Operation *op : ops())
      if (auto found = llvm::dyn_cast<Op>(op))
        return found;
    return {};
  }

  /// Inputs drawn from a seeded uniform distribution with |x| in [0.2, 1.2): away from the kinks at 0. Ids
  /// are drawn below `ids`.
  std::vector<HostTensor> draw(unsigned seed, int64_t ids = 5);
  /// Values of all arguments and results. `inputs` are the block arguments' values, in order.
  Values evaluate(llvm::ArrayRef<HostTensor> inputs);
  /// Sum of the returned tensors' elements, weighted by seeded numbers.
  double objective(llvm::ArrayRef<HostTensor> inputs);
  /// Appends the adjoint of `objective`; afterwards the gradient of argument i is `gradients[i]` (null for
  /// ids). Checks on the way that adjoints read only what they declare. False, with a test failure, on an
  /// error.
  bool differentiate(std::vector<mlir::Value> &gradients);
  /// Replaces every op that has a decomposition, until none is left.
  void decomposeAll();

private:
  bool counted = false; // the first evaluation also checks every op's count (Counting.h)
  std::string messages;
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// The weights of result `index` in the objective.
HostTensor objectiveWeights(mlir::Value result, unsigned index);

/// Compares the adjoint with central differences for every float argument: relative L2 below 1e-6.
void checkAdjoint(const std::string &text, unsigned seed = 1);

/// Relative L2 distance, absolute where `expected` is zero.
double relativeError(const HostTensor &found, const HostTensor &expected);

} // namespace sluice::test
