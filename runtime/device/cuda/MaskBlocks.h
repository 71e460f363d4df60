// Products under a mask of blocks, over its kept blocks alone.
#pragma once

#include "runtime/device/MaskPattern.h"
#include "runtime/device/cuda/Kernel.h"

namespace sluice::cuda {

/// The pattern of the command's mask where products run over its kept blocks: the attribute `pattern` is
/// there, and the blocks are of a size that the tiles take. `out` x `in` is a matrix. Nullopt otherwise; a
/// pattern that does not fit is an error in `arguments`.
std::optional<MaskPattern> blocksOf(Arguments &arguments, int64_t out, int64_t in);

/// y = x w^T or, transposed, dx = dy w over the kept blocks of w [matrices, out, in]; operands are checked.
/// `routing` without a buffer: all rows are of one matrix.
struct BlockProduct {
  Tensor y, x, w, bias, mask;
  MaskPattern blocks;
  RoutingParameter routing;
  bool transposed, accumulate;

  PreparedKernel prepare() const;
};

/// dw [matrices, out, in] (+)= dy^T x at kept blocks. Elsewhere zeros, or when accumulating what was there.
struct BlockWeightGradient {
  Tensor dw, dy, x, mask;
  MaskPattern blocks;
  RoutingParameter routing;
  bool accumulate;

  PreparedKernel prepare() const;
};

/// Bytes of the command's weights, or of a gradient that it adds to, that lie in dropped blocks and are not
/// touched. Zero for other commands. The command has been prepared without an error.
uint64_t droppedBytes(const Command &command);

} // namespace sluice::cuda
