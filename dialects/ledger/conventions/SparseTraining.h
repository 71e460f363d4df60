// The cost of a training step under dynamic sparse training, in units of dense training (RigL, 1911.11134).
#pragma once

namespace sluice {

/// Who computes which gradients. All three keep the forward and the input gradients sparse.
enum class SparseTraining {
  Static, // fixed masks, SNIP, SET: the weight gradient too is sparse
  Snfs,   // the weight gradient is dense in every step
  Rigl,   // it is dense once in `interval` + 1 steps, when masks are updated
};

/// Mean cost of a step divided by that of dense training, 3 f_D, where `density` = f_S / f_D is the share of
/// the forward work that remains: static 3 f_S; SNFS 2 f_S + f_D; RigL (3 f_S dT + 2 f_S + f_D) / (dT + 1).
double sparseTrainingShare(SparseTraining method, double density, double interval = 100);

} // namespace sluice
