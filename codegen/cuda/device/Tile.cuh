// One tile of a matrix product in float32, 64 x 64 if nothing else is said: 256 threads as 16 x 16, the reduced dimension in
// steps of 16 and in increasing order, so that a result depends on shapes only.
#pragma once
#include "Types.cuh"

const int tileSize = 64, tileDepth = 16, tileThreads = 256;

/// The results of one thread: rows threadIdx.x / 16 + 16 i, columns threadIdx.x % 16 + 16 j of the tile. Both sizes are
/// multiples of 16.
template <int rowCount = tileSize, int columnCount = tileSize> struct TileResult {
  float value[rowCount / 16][columnCount / 16];

  __device__ TileResult() {
    for (int i = 0; i < rowCount / 16; ++i)
      for (int j = 0; j < columnCount / 16; ++j)
        value[i][j] = 0.0f;
  }
  /// store(row, column, value) for each result; rows and columns count from the tile's corner.
  template <typename Store> __device__ void forEach(Store store) const {
    for (int i = 0; i < rowCount / 16; ++i)
      for (int j = 0; j < columnCount / 16; ++j)
        store((int)(threadIdx.x / 16) + 16 * i, (int)(threadIdx.x % 16) + 16 * j, value[i][j]);
  }
};

/// result += sum over k < depth of a(row, k) b(column, k). The loaders give 0 outside the matrix; `deepA` (`deepB`) says that
/// neighbours along k are neighbours in memory. All threads of the block must call it.
template <int rowCount, int columnCount, typename LoadA, typename LoadB>
__device__ inline void multiplyTile(TileResult<rowCount, columnCount> &result, int depth, bool deepA, LoadA a, bool deepB,
                                    LoadB b) {
  // Two words beside 16 n of them: a warp that stores 16 depths of 2 lines meets each of the 32 banks once, as does one that
  // stores 32 lines of one depth.
  __shared__ float tileA[tileDepth][rowCount + 2];
  __shared__ float tileB[tileDepth][columnCount + 2];
  const int row = threadIdx.x / 16, column = threadIdx.x % 16;
  for (int start = 0; start < depth; start += tileDepth) {
    for (int i = threadIdx.x; i < rowCount * tileDepth; i += tileThreads) {
      const int line = deepA ? i / tileDepth : i % rowCount, k = deepA ? i % tileDepth : i / rowCount;
      tileA[k][line] = start + k < depth ? a(line, start + k) : 0.0f;
    }
    for (int i = threadIdx.x; i < columnCount * tileDepth; i += tileThreads) {
      const int line = deepB ? i / tileDepth : i % columnCount, k = deepB ? i % tileDepth : i / columnCount;
      tileB[k][line] = start + k < depth ? b(line, start + k) : 0.0f;
    }
    __syncthreads();
    for (int k = 0; k < tileDepth; ++k) {
      float left[rowCount / 16], right[columnCount / 16];
      for (int i = 0; i < rowCount / 16; ++i)
        left[i] = tileA[k][row + 16 * i];
      for (int j = 0; j < columnCount / 16; ++j)
        right[j] = tileB[k][column + 16 * j];
      for (int i = 0; i < rowCount / 16; ++i)
        for (int j = 0; j < columnCount / 16; ++j)
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
