// Random model graphs for tests of the phases: a recipe that a seed decides, the module made from it, and a
// reducer.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sluice::test {

/// One step takes values of the stream [batch, seq, width] and adds one. Operands are picks modulo the number
/// of values there are, so that a recipe stays valid whatever steps are taken out.
struct Step {
  enum Kind {
    Linear,
    TiedLinear,
    RmsNorm,
    Add,
    Multiply,
    Scale,
    Activation,
    Softmax,
    Mlp,
    Attention,
    Map,
    SumOverSequence,
    Contract,
    SliceConcat,
    Transpose,
    Moe,
    Observe,
    Repeat,
    Scope
  };
  Kind kind = Linear;
  int64_t first = 0, second = 0; // picks of operands
  int64_t size = 1;              // a width, a number of experts or of iterations
  int64_t variant = 0;           // a choice among forms
  std::vector<Step> body;        // of Repeat and Scope
};

struct Recipe {
  int64_t batch = 1, seq = 1, width = 1, vocabulary = 2;
  bool tied = false; // the head's weight is the embedding table
  std::vector<Step> steps;
};

/// The recipe of a seed: odd sizes, shared values, tied weights, layers, scopes, experts, losses, maps.
Recipe randomRecipe(uint64_t seed);
/// The graph as a frontend would make it, with named dimensions batch and seq.
mlir::OwningOpRef<mlir::ModuleOp> buildModule(mlir::MLIRContext &context, const Recipe &recipe);
/// Number of steps, those in bodies included.
int64_t stepCount(const Recipe &recipe);
/// The smallest recipe found, by taking steps out, opening bodies and shrinking sizes, for which `fails`
/// still holds.
Recipe reduce(Recipe recipe, const std::function<bool(const Recipe &)> &fails);

} // namespace sluice::test
