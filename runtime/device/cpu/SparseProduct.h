// Products that skip the zeros of a masked weight. Tokens lie in the lanes of the vectors, a weight is
// broadcast to all of them.
#pragma once

#include "runtime/device/cpu/SparseMatrix.h"

namespace sluice::cpu {

/// Tokens of a panel: what the accumulators of one output hold on this host.
int64_t sparsePanelTokens();

/// Bytes of scratch, 64-byte aligned, for sparsePanelProduct: a panel of the input and a block of the output.
uint64_t sparseProductScratchBytes(const SparseMatrix &weight);

/// y[tokens, outputs] = x[tokens, inputs] W^T, or += with `accumulate`, for at most a panel of tokens. A sum
/// adds the kept inputs in ascending order, whatever the host's vectors. `leadingX`, `leadingY`: elements
/// from one token to the next.
void sparsePanelProduct(const SparseMatrix &weight, int64_t tokens, const float *x, int64_t leadingX,
                        float *y, int64_t leadingY, bool accumulate, void *scratch);

/// Bytes of scratch for sparseWeightGradient: panels of x and dy.
uint64_t sparseGradientScratchBytes(const SparseMatrix &weight);

/// sums[k] = sum over the tokens of dy[token, output] x[token, input], for the kept weights only, in the
/// order of SparseMatrix::values; panel by panel.
void sparseWeightGradient(const SparseMatrix &weight, int64_t tokens, const float *x, int64_t leadingX,
                          const float *dy, int64_t leadingDy, float *sums, void *scratch);

} // namespace sluice::cpu
