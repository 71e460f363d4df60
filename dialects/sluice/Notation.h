// Reading a model through its notation: every op as often as it runs, every parameter under its full name.
#pragma once

#include "dialects/sluice/Sluice.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace sluice {

/// Where one execution of an op stands. After *flatten* it is the op's origin; before, the enclosing
/// notation.
struct OpPlace {
  std::string path;      // scope path with iteration numbers: layers.0.attn
  int64_t layer = -1;    // iteration of the innermost repeat, or -1
  std::string role;      // role of the innermost scope that has one
  std::string direction; // forward, backward, recompute, update, initialize
  ExpertsOp experts;     // the enclosing experts op, or null
};

/// `path` and `name` joined by a dot; either may be empty.
std::string joinPath(llvm::StringRef path, llvm::StringRef name);

/// Visits the ops of a block in execution order, each as often as it runs (a repeat's body once an
/// iteration). Bodies of repeat, scope, experts, kernels and commands are entered after the op itself was
/// visited.
void visitOps(mlir::Block &block, llvm::function_ref<void(mlir::Operation *, const OpPlace &)> visit,
              OpPlace place = {"", -1, "", "forward", nullptr});

/// One trainable tensor of the model.
struct ParameterInfo {
  std::string name;            // layers.0.attn.wq
  mlir::RankedTensorType type; // parameters inside `experts` stacked: [experts, ...]
  mlir::Attribute init;        // NormalAttr or FillAttr
  std::string kind;            // what it does for the model: embedding, attention, expert, ...
  std::string checkpoint;      // name in checkpoints; `{expert}` stays
  bool decay = false;          // whether weight decay applies
  int64_t experts = 0;         // leading expert count, or 0
  int64_t active = 0;          // experts that a token uses, or 0
  MaskType mask;               // of the whole tensor; null: every weight is kept
};

/// On a state in kept form: the mask that says which weights it holds.
inline constexpr llvm::StringLiteral keptByAttributeName = "sluice.kept_by";
/// The type of that mask; null where the state holds the whole tensor.
MaskType keptBy(StateOp state);
/// The type of the whole tensor that a state stands for; not for masks.
mlir::RankedTensorType wholeType(StateOp state);

/// The name of a parameter's mask: the parameter's with `.mask`.
std::string maskName(llvm::StringRef parameter);

/// The parameters in order of first use: `sluice.state` symbols if there are any, else the `sluice.param` ops
/// of all graphs under their full names (equal names are one parameter).
std::vector<ParameterInfo> parametersOf(mlir::ModuleOp module);

} // namespace sluice
