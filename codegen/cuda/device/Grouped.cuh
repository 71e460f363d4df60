// Products of groups: rows of one expert (or all rows, of one matrix) with that expert's matrix. Callers say which pieces of the
// reduced dimension there are, the whole of it or the kept blocks of a mask; tiles and stores are the same.
#pragma once
#include "Routing.cuh"
#include "Tile.cuh"

/// One tile of rows of one group; without a routing buffer all rows are of group 0.
__device__ inline ExpertTile groupTile(const Routing &routing, int tile, int size) {
  if (routing.buffer)
    return expertTile(routing, tile, size);
  return {0, tile * size, min((tile + 1) * size, routing.rows())};
}

/// Which pieces of the reduced dimension a product sums over: this one, the whole of it, or others with these members.
struct WholeDepth {
  int depth; // of every piece
  __device__ int count() const { return 1; }
  __device__ int begin(int) const { return 0; }
};

/// y[r] = x[r] w[expert]^T (+ bias[expert]); w[expert] is [out, in], or [in, out] with `transposed`.
struct GroupedProduct {
  float *y;
  const float *x, *w, *bias; // bias: or null
  int in, out;
  int transposed, accumulate; // flags

  /// The tile of these rows and of columns [firstColumn, endColumn), summed over `pieces` of the inputs in their order.
  template <int rowCount, int columnCount, typename Pieces>
  __device__ void tile(const ExpertTile &tile, int firstColumn, int endColumn, const Pieces &pieces) const {
    const int rows = tile.end - tile.begin;
    const int line = transposed ? 1 : in, step = transposed ? out : 1;
    const float *own = x + (int64)tile.begin * in, *weight = w + (int64)tile.expert * in * out + (int64)firstColumn * line;
    TileResult<rowCount, columnCount> result;
    const int count = pieces.count();
    for (int piece = 0; piece < count; ++piece) {
      const int begin = pieces.begin(piece);
      multiplyTile(result, pieces.depth, true, StridedLines{own + begin, in, 1, rows}, step == 1,
                   StridedLines{weight + (int64)begin * step, line, step, endColumn - firstColumn});
    }
    storeTile(result, y + (int64)tile.begin * out + firstColumn, out, rows, endColumn - firstColumn,
              bias ? bias + (int64)tile.expert * out + firstColumn : nullptr, accumulate != 0);
  }
};

/// One tile, at (firstRow, firstColumn) of dw [out, in]: dw[o][i] (+)= sum over `depth` rows, in increasing order, of
/// left(row, o) right(row, i).
template <int rowCount, int columnCount, typename Left, typename Right>
__device__ inline void weightGradientTile(float *dw, int out, int in, int firstRow, int firstColumn, int depth, Left left,
                                          Right right, bool accumulate) {
  TileResult<rowCount, columnCount> result;
  multiplyTile(
      result, depth, false, [&](int line, int k) { return firstRow + line < out ? left(k, firstRow + line) : 0.0f; }, false,
      [&](int line, int k) { return firstColumn + line < in ? right(k, firstColumn + line) : 0.0f; });
  storeTile(result, dw + (int64)firstRow * in + firstColumn, in, out - firstRow, in - firstColumn, nullptr, accumulate);
}
