// One tile of a matrix product in float32, 64 x 64 if nothing else is said: 256 threads as 16 x 16, the reduced dimension in
// steps of 16 and in increasing order, so that a result depends on shapes only.
#pragma once
#include "Types.cuh"

const int tileSize = 64, tileDepth = 16, tileThreads = 256;

/// The results of one thread: neighbouring rows, so that their operands are loaded together, and every sixteenth column, so that
/// neighbouring threads store to neighbouring places. Both sizes are 16, 32, 64, 128 or 256.
template <int rowCount = tileSize, int columnCount = tileSize> struct TileResult {
  static const int rows = rowCount / 16, columns = columnCount / 16; // of one thread
  float value[rows][columns];

  __device__ TileResult() {
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < columns; ++j)
        value[i][j] = 0.0f;
  }
  /// Where value[i][j] lies in the tile.
  __device__ static int rowOf(int i) { return (int)(threadIdx.x / 16) * rows + i; }
  __device__ static int columnOf(int j) { return (int)(threadIdx.x % 16) + 16 * j; }
  /// store(row, column, value) for each result; rows and columns count from the tile's corner.
  template <typename Store> __device__ void forEach(Store store) const {
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < columns; ++j)
        store(rowOf(i), columnOf(j), value[i][j]);
  }
};

/// tileDepth steps of `lines` lines. The four words beside them keep the threads of a warp in banks of their own: 8 depths of 4
/// lines, 32 lines of one depth, or 16 lines of 2 depths that are 4 apart.
template <int lines> struct __align__(16) SharedTile {
  float value[tileDepth][lines + 4];

  /// Loads the steps from `start` on, 0 beyond `depth`. With `deep` neighbours among the threads are neighbours along the depth.
  template <typename Load> __device__ void fill(int start, int depth, bool deep, Load load) {
    const uint32 thread = threadIdx.x, across = thread / lines;
    const int line = deep ? thread / 8 % lines : thread % lines;
    const int k = deep ? thread % 8 + thread / (8 * lines) * 8
                       : lines == 16 ? across % 2 * 4 + across / 2 % 4 + across / 8 * 8 : across;
#pragma unroll 4
    for (int part = 0; part < lines * tileDepth / tileThreads; ++part) {
      const int ownLine = line + (deep ? tileThreads / 8 * part % lines : 0);
      const int ownK = k + (deep ? tileThreads / 8 * part / lines * 8 : tileThreads / lines * part);
      value[ownK][ownLine] = start + ownK < depth ? load(ownLine, start + ownK) : 0.0f;
    }
  }
};

/// result += sum over k < depth of a(row, k) b(column, k). The loaders give 0 outside the matrix; `deepA` (`deepB`) says that
/// neighbours along k are neighbours in memory. All threads of the block must call it.
template <int rowCount, int columnCount, typename LoadA, typename LoadB>
__device__ inline void multiplyTile(TileResult<rowCount, columnCount> &result, int depth, bool deepA, LoadA a, bool deepB,
                                    LoadB b) {
  typedef TileResult<rowCount, columnCount> Result;
  __shared__ SharedTile<rowCount> tileA;
  __shared__ SharedTile<columnCount> tileB;
  for (int start = 0; start < depth; start += tileDepth) {
    tileA.fill(start, depth, deepA, a);
    tileB.fill(start, depth, deepB, b);
    __syncthreads();
#pragma unroll 2
    for (int k = 0; k < tileDepth; ++k) {
      float left[Result::rows], right[Result::columns];
      for (int i = 0; i < Result::rows; ++i)
        left[i] = tileA.value[k][Result::rowOf(i)];
      for (int j = 0; j < Result::columns; ++j)
        right[j] = tileB.value[k][Result::columnOf(j)];
      for (int i = 0; i < Result::rows; ++i)
        for (int j = 0; j < Result::columns; ++j)
          result.value[i][j] += left[i] * right[j];
    }
    __syncthreads(); // the next step overwrites the tiles
  }
}

/// A matrix whose lines are `line` elements apart and whose reduced dimension steps by `step`; lines beyond `count` are 0.
struct StridedLines {
  const float *data;
  int line, step, count;
  __device__ float operator()(int index, int k) const { return index < count ? data[(int64)index * line + (int64)k * step] : 0.0f; }
};

/// c (+)= a tile (+ bias): `c` is its corner in a matrix whose rows are `stride` apart, `bias` (or null) has a number for each of
/// its columns. Results beyond `rows` and `columns` are left out.
template <int rowCount, int columnCount>
__device__ inline void storeTile(const TileResult<rowCount, columnCount> &result, float *c, int stride, int rows, int columns,
                                 const float *bias, bool accumulate) {
  typedef TileResult<rowCount, columnCount> Result;
  float added[Result::columns];
  for (int j = 0; j < Result::columns; ++j)
    added[j] = bias && Result::columnOf(j) < columns ? bias[Result::columnOf(j)] : 0.0f;
  for (int i = 0; i < Result::rows; ++i) {
    float *line = c + (int64)Result::rowOf(i) * stride;
    for (int j = 0; j < Result::columns; ++j)
      if (Result::rowOf(i) < rows && Result::columnOf(j) < columns) {
        float *place = line + Result::columnOf(j);
        const float value = result.value[i][j] + added[j];
        *place = accumulate ? *place + value : value;
      }
  }
}
