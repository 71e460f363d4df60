// Which weights a model leaves out: targets, densities in exact arithmetic, and the masks in the graph.
#pragma once

#include "runtime/support/Status.h"

#include "mlir/IR/BuiltinOps.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// An exact fraction; `denominator` is positive.
struct Ratio {
  int64_t numerator = 1, denominator = 1;
};
/// "0.1" as 1/10, "2.5e-2" as 1/40: a decimal number of at most 9 digits before and after rounding to powers
/// of ten. Nullopt for anything else, negative numbers included.
std::optional<Ratio> parseDecimal(std::string_view text);

enum class Distribution {
  Uniform,        // one density
  Erk,            // Erdos-Renyi: density proportional to (in + out) / (in out)
  AttentionToMlp, // density of attention = ratio x density of all other targets
};

/// A rule of the section `sparsity` of a spec, as far as the graph needs it.
struct Sparsity {
  std::string key = "sparsity"; // of the spec, for messages: "sparsity.1" is the second rule of a list
  std::vector<std::string>
      targets;   // roles (attention, mlp, experts, shared) or names with * (layers.*.attn.wq)
  Ratio density; // of the targets together
  Distribution distribution = Distribution::Uniform;
  Ratio attentionToMlp;
  std::string pattern = "unstructured"; // as in the type of a mask
  bool gradual = false;                 // starts with all weights and ends at the density
};

/// Matrices of one kind in a model, for the distribution of densities.
struct MaskedLayer {
  int64_t out = 0, in = 0;
  int64_t matrices = 1; // how often the layer exists: iterations times experts
  bool attention = false;
};

/// Kept weights of each matrix of each layer: ceil of the exact density times its size, so that
/// floor((1 - density) size) weights are left out. ERK (RigL 2019, appendix): kept = epsilon (in + out);
/// where that is more than a matrix has, the layer with the largest density becomes dense and epsilon is
/// solved again. Errors (usage): a density above 1 through `attentionToMlp`.
StatusOr<std::vector<int64_t>> keptWeights(const Sparsity &sparsity, const std::vector<MaskedLayer> &layers);

/// Gives the targets' products masks: a `param_mask` beside each parameter, with `sluice.rule` where there
/// are several rules. Errors (usage), each starting with the spec's key: a target that matches nothing, or
/// only some layers of a repeat, or a weight that an earlier rule masks; a pattern that does not divide a
/// matrix; a parameter that another op than `linear` reads.
Status applySparsity(mlir::ModuleOp module, const std::vector<Sparsity> &rules);

} // namespace sluice
