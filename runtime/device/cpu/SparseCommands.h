// Masked products as commands that skip zeros.
#pragma once

#include "runtime/device/cpu/DerivedState.h"
#include "runtime/device/cpu/Kernel.h"

namespace sluice::cpu {

/// y[tokens, outputs] (+)= x[tokens, inputs] W^T by panels of tokens, one a tile.
PreparedKernel sparseProductKernel(std::shared_ptr<const SparseWeight> weight, int64_t tokens, const float *x,
                                   float *y, bool accumulate);

/// dW (+)= dy^T x at the kept places; elsewhere dW is zero, or what it was with `accumulate`. The tokens are
/// cut into a fixed number of segments whose sums are added in order, so the bits do not depend on the
/// threads.
PreparedKernel sparseWeightGradientKernel(std::shared_ptr<const SparseWeight> weight, int64_t tokens,
                                          const float *x, const float *dy, float *dw, bool accumulate);

} // namespace sluice::cpu
