#include "passes/Phases.h"

namespace sluice {

llvm::ArrayRef<PhaseInfo> phases() {
  static constexpr PhaseInfo table[] = {
      {Phase::Parse, "parse", "The graph as written: one model, named dimensions, notation."},
      {Phase::Bind, "bind", "Dimension names become numbers; all shapes are checked."},
      {Phase::Flatten, "flatten",
       "Layers unrolled, experts opened, scopes dissolved; parameters are state, losses are outputs."},
      {Phase::Differentiate, "differentiate",
       "Entry points init, accumulate, apply, eval and logits; gradients are ops."},
      {Phase::Precision, "precision", "Number formats chosen (float32)."},
      {Phase::SaveOrRecompute, "save-or-recompute", "Decided which forward values live to the backward."},
      {Phase::LowerMasks, "lower-masks", "Kernels of masked products chosen (masks are refused so far)."},
      {Phase::FuseExperts, "fuse-experts", "Experts' chains outlined as grouped kernels."},
      {Phase::FormKernels, "form-kernels", "Elementwise and reduction regions outlined as kernels."},
      {Phase::Plan, "plan", "Commands in order, with places in memory."},
  };
  return table;
}

std::optional<Phase> phaseByName(llvm::StringRef name) {
  for (const PhaseInfo &info : phases())
    if (info.name == name)
      return info.phase;
  return std::nullopt;
}

llvm::StringRef phaseName(Phase phase) {
  return phases()[static_cast<size_t>(phase)].name;
}

} // namespace sluice
