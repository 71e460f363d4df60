// Masked products as commands that skip zeros.
#pragma once

#include "runtime/device/cpu/DerivedState.h"
#include "runtime/device/cpu/Kernel.h"
#include "runtime/device/cpu/RoutingBuffer.h"

namespace sluice::cpu {

/// y[tokens, outputs] (+)= x[tokens, inputs] W^T by panels of tokens, one a tile.
PreparedKernel sparseProductKernel(std::shared_ptr<const SparseWeight> weight, int64_t tokens, const float *x,
                                   float *y, bool accumulate);

/// dW (+)= dy^T x at the kept places; elsewhere dW is zero, or what it was with `accumulate`. The tokens are
/// cut into a fixed number of segments whose sums are added in order, so the bits do not depend on the
/// threads.
PreparedKernel sparseWeightGradientKernel(std::shared_ptr<const SparseWeight> weight, int64_t tokens,
                                          const float *x, const float *dy, float *dw, bool accumulate);

/// The same for the rows of each expert, grouped by expert: y[R, outputs] = x[R, inputs] W[expert]^T.
PreparedKernel sparseGroupedProductKernel(std::vector<std::shared_ptr<const SparseWeight>> weights,
                                          const RoutingBuffer &routing, const float *x, float *y);

/// dW[expert] (+)= dy^T x over the expert's rows, as sparseWeightGradientKernel; dw is [experts, outputs,
/// inputs], or [experts, most] in kept form.
PreparedKernel sparseGroupedWeightGradientKernel(std::vector<std::shared_ptr<const SparseWeight>> weights,
                                                 const RoutingBuffer &routing, const float *x,
                                                 const float *dy, float *dw, bool accumulate);

/// Runs `skipping` while the mask of `weight` fits its entries, else `dense`; asked at every execution.
PreparedKernel eitherKernel(std::shared_ptr<const SparseWeight> weight, PreparedKernel skipping,
                            PreparedKernel dense);

} // namespace sluice::cpu
