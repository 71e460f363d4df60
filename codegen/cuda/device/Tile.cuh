// One 64 x 64 tile of a matrix product in float32: 256 threads, 4 x 4 results each, the reduced dimension in steps of 16
// and in increasing order, so that a result depends on shapes only.
#pragma once
#include "Types.cuh"

const int tileSize = 64, tileDepth = 16, tileThreads = 256;

/// The results of one thread: rows threadIdx.x / 16 + 16 i, columns threadIdx.x % 16 + 16 j of the tile.
struct TileResult {
  float value[4][4];

  __device__ TileResult() {
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j)
        value[i][j] = 0.0f;
  }
  /// store(row, column, value) for each result; rows and columns count from the tile's corner.
  template <typename Store> __device__ void forEach(Store store) const {
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j)
        store((int)(threadIdx.x / 16) + 16 * i, (int)(threadIdx.x % 16) + 16 * j, value[i][j]);
  }
};

/// result += sum over k < depth of a(row, k) b(column, k). The loaders give 0 outside the matrix; `deepA` (`deepB`) says that
/// neighbours along k are neighbours in memory. All threads of the block must call it.
template <typename LoadA, typename LoadB>
__device__ inline void multiplyTile(TileResult &result, int depth, bool deepA, LoadA a, bool deepB, LoadB b) {
  // Lines are 66 words apart: a warp that stores 16 depths of 2 lines meets each of the 32 banks once, as does one that
  // stores 32 lines of one depth.
  __shared__ float tileA[tileDepth][tileSize + 2];
  __shared__ float tileB[tileDepth][tileSize + 2];
  const int row = threadIdx.x / 16, column = threadIdx.x % 16;
  for (int start = 0; start < depth; start += tileDepth) {
    for (int i = threadIdx.x; i < tileSize * tileDepth; i += tileThreads) {
      const int lineA = deepA ? i / tileDepth : i % tileSize, depthA = deepA ? i % tileDepth : i / tileSize;
      const int lineB = deepB ? i / tileDepth : i % tileSize, depthB = deepB ? i % tileDepth : i / tileSize;
      tileA[depthA][lineA] = start + depthA < depth ? a(lineA, start + depthA) : 0.0f;
      tileB[depthB][lineB] = start + depthB < depth ? b(lineB, start + depthB) : 0.0f;
    }
    __syncthreads();
    for (int k = 0; k < tileDepth; ++k) {
      float left[4], right[4];
      for (int i = 0; i < 4; ++i)
        left[i] = tileA[k][row + 16 * i];
      for (int j = 0; j < 4; ++j)
        right[j] = tileB[k][column + 16 * j];
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
          result.value[i][j] += left[i] * right[j];
    }
    __syncthreads(); // the next step overwrites the tiles
  }
}

/// A matrix whose lines are `line` elements apart and whose reduced dimension steps by `step`; lines beyond `count` are 0.
struct StridedLines {
  const float *data;
  int64 line, step;
  int count;
  __device__ float operator()(int index, int k) const { return index < count ? data[index * line + k * step] : 0.0f; }
};
