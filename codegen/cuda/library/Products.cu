// Dense products.
#include "Tile.cuh"

/// C[m, n] (+)= A B (+ bias[n]); A and B are given by the strides of their rows (columns) and of the reduced dimension.
extern "C" __global__ void __launch_bounds__(256)
    gemm(float *c, const float *a, const float *b, const float *bias, int m, int n, int k, int rowA, int depthA,
         int columnB, int depthB, int accumulate) {
  const int firstRow = blockIdx.y * tileSize, firstColumn = blockIdx.x * tileSize;
  TileResult<> result;
  multiplyTile(result, k, depthA == 1, StridedLines{a + (int64)firstRow * rowA, rowA, depthA, m - firstRow}, depthB == 1,
               StridedLines{b + (int64)firstColumn * columnB, columnB, depthB, n - firstColumn});
  storeTile(result, c + (int64)firstRow * n + firstColumn, n, m - firstRow, n - firstColumn,
            bias ? bias + firstColumn : nullptr, accumulate != 0);
}

/// A general einsum of two operands, one thread a result. Sizes and strides of the result's dimensions come first, then
/// those of the contracted ones.
struct Contraction {
  int resultRank, contractedRank;
  uint32 size[12];
  int64 strideA[12], strideB[12];
};

extern "C" __global__ void contract(float *c, const float *a, const float *b, Contraction shape, uint32 count,
                                    uint32 contracted, int accumulate) {
  for (int64 index = globalThread(); index < count; index += globalThreads()) {
    uint32 rest = (uint32)index;
    int64 fromA = 0, fromB = 0;
#pragma unroll 1
    for (int i = shape.resultRank - 1; i >= 0; --i) {
      const uint32 position = rest % shape.size[i];
      rest /= shape.size[i];
      fromA += position * shape.strideA[i];
      fromB += position * shape.strideB[i];
    }
    double sum = 0;
#pragma unroll 1
    for (uint32 k = 0; k < contracted; ++k) {
      uint32 inner = k;
      int64 atA = fromA, atB = fromB;
#pragma unroll 1
      for (int i = shape.resultRank + shape.contractedRank - 1; i >= shape.resultRank; --i) {
        const uint32 position = inner % shape.size[i];
        inner /= shape.size[i];
        atA += position * shape.strideA[i];
        atB += position * shape.strideB[i];
      }
      sum += (double)a[atA] * b[atB];
    }
    c[index] = accumulate ? c[index] + (float)sum : (float)sum;
  }
}
