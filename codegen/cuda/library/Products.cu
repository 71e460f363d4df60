// Dense products.
#include "Tile.cuh"

/// C[m, n] (+)= A B (+ bias[n]); A and B are given by the strides of their rows (columns) and of the reduced dimension.
extern "C" __global__ void __launch_bounds__(256)
    gemm(float *c, const float *a, const float *b, const float *bias, int m, int n, int k, int64 rowA, int64 depthA,
         int64 columnB, int64 depthB, int accumulate) {
  const int firstRow = blockIdx.y * tileSize, firstColumn = blockIdx.x * tileSize;
  TileResult<> result;
  multiplyTile(result, k, depthA == 1, StridedLines{a + firstRow * rowA, rowA, depthA, m - firstRow}, depthB == 1,
               StridedLines{b + firstColumn * columnB, columnB, depthB, n - firstColumn});
  result.forEach([&](int row, int column, float value) {
    row += firstRow;
    column += firstColumn;
    if (row >= m || column >= n)
      return;
    float *place = c + (int64)row * n + column;
    if (bias)
      value += bias[column];
    *place = accumulate ? *place + value : value;
  });
}

/// A general einsum of two operands, one thread a result. Sizes and strides of the result's dimensions come first, then
/// those of the contracted ones.
struct Contraction {
  int resultRank, contractedRank;
  int64 size[12], strideA[12], strideB[12];
};

extern "C" __global__ void contract(float *c, const float *a, const float *b, Contraction shape, int64 count,
                                    int64 contracted, int accumulate) {
  for (int64 index = globalThread(); index < count; index += globalThreads()) {
    int64 rest = index, fromA = 0, fromB = 0;
    for (int i = shape.resultRank - 1; i >= 0; --i) {
      const int64 position = rest % shape.size[i];
      rest /= shape.size[i];
      fromA += position * shape.strideA[i];
      fromB += position * shape.strideB[i];
    }
    double sum = 0;
    for (int64 k = 0; k < contracted; ++k) {
      int64 inner = k, atA = fromA, atB = fromB;
      for (int i = shape.resultRank + shape.contractedRank - 1; i >= shape.resultRank; --i) {
        const int64 position = inner % shape.size[i];
        inner /= shape.size[i];
        atA += position * shape.strideA[i];
        atB += position * shape.strideB[i];
      }
      sum += (double)a[atA] * b[atB];
    }
    c[index] = accumulate ? c[index] + (float)sum : (float)sum;
  }
}
