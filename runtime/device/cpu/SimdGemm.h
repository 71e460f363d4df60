// A single-threaded float32 product in portable SIMD, with run-time shapes: C (+)= A B over strided operands.
#pragma once

#include <cstdint>

namespace sluice::cpu {

/// One matrix operand: element (i, j) lies at data[i * rowStride + j * columnStride]; one of the strides
/// is 1.
struct MatrixView {
  const float *data;
  int64_t rowStride, columnStride;
};

/// Row-major [rows, columns] with leading dimension `leading`, or its transpose.
inline MatrixView matrixView(const float *data, int64_t leading, bool transposed) {
  return transposed ? MatrixView{data, 1, leading} : MatrixView{data, leading, 1};
}

/// Bytes of scratch that simdGemm needs for products up to these sizes; the scratch must be 64-byte aligned.
uint64_t simdGemmScratchBytes(int64_t rows, int64_t columns, int64_t depth);

/// C[rows, columns] = (accumulate ? C : 0) + A[rows, depth] B[depth, columns]; C has leading dimension
/// `leadingC`. The order of additions depends on the shapes only. depth = 0 gives zeros (or leaves C when
/// accumulating).
void simdGemm(int64_t rows, int64_t columns, int64_t depth, MatrixView a, MatrixView b, float *c,
              int64_t leadingC, bool accumulate, void *scratch);

} // namespace sluice::cpu
