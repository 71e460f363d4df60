// Products of experts over device-side row counts: grids are as large as the worst split, nothing is asked of the host. Bounds
// ask for two blocks a multiprocessor: by itself ptxas keeps to 64 registers, and two of the kernels spill on sm_90.
#include "Grouped.cuh"

/// Rows of a matrix in expert order: row r itself, or the row of r's token, times its gate where gates are given.
struct ExpertRows {
  const float *data;
  const float *gates; // null: not weighted
  int width;
  bool gathered;
  Routing routing;

  __device__ float operator()(int row, int column) const {
    const int slot = gathered || gates ? routing.rowSlot()[row] : 0;
    const float value = data[(int64)(gathered ? routing.tokenOfSlot(slot) : row) * width + column];
    return gates ? gates[slot] * value : value;
  }
};

__device__ inline float silu(float x) { return x * sigmoid(x); }

/// y[r] = x[r] w[expert]^T (+ bias[expert]); w[expert] is [out, in], or [in, out] with `transposed`.
extern "C" __global__ void __launch_bounds__(256, 2)
    grouped_gemm(float *y, const float *x, const float *w, const float *bias, Routing routing, int in, int out, int transposed) {
  const ExpertTile tile = expertTile(routing, blockIdx.y, tileSize);
  if (tile.expert < 0)
    return;
  const GroupedProduct product{y, x, w, bias, in, out, transposed, 0};
  product.tile<tileSize, tileSize>(tile, blockIdx.x * tileSize, out, WholeDepth{in});
}

/// dw[e][o][i] (+)= sum over e's rows, in increasing order, of left[r][o] right[r][i]. An expert without rows gets zeros.
extern "C" __global__ void __launch_bounds__(256, 2)
    grouped_weight_gradient(float *dw, const float *left, const float *right, const float *gates, Routing routing, int out,
                            int in, int gatherLeft, int gatherRight, int accumulate) {
  const int expert = blockIdx.z, begin = routing.offsets()[expert], depth = routing.offsets()[expert + 1] - begin;
  const ExpertRows a{left, gates, out, gatherLeft != 0, routing}, b{right, nullptr, in, gatherRight != 0, routing};
  weightGradientTile<tileSize, tileSize>(
      dw + (int64)expert * out * in, out, in, blockIdx.y * tileSize, blockIdx.x * tileSize, depth,
      [&](int row, int column) { return a(begin + row, column); }, [&](int row, int column) { return b(begin + row, column); },
      accumulate != 0);
}

/// sums[e][o] (+)= sum of e's rows of dy, in increasing order.
extern "C" __global__ void grouped_sum(float *sums, const float *dy, Routing routing, int out, int accumulate) {
  const int64 index = globalThread();
  if (index >= (int64)routing.experts * out)
    return;
  const int expert = (int)(index / out), column = (int)(index % out);
  float sum = 0.0f;
  for (int row = routing.offsets()[expert]; row < routing.offsets()[expert + 1]; ++row)
    sum += dy[(int64)row * out + column];
  sums[index] = accumulate ? sums[index] + sum : sum;
}

/// The rows of one tile in the order of tokens, looked up once a block.
struct TileTokens {
  int token[tileSize]; // -1 beyond the tile's rows
  float gate[tileSize];

  /// All threads must call it; `gates` may be null.
  __device__ void fill(const ExpertTile &tile, const Routing &routing, const float *gates) {
    if (threadIdx.x < tileSize) {
      const int row = tile.begin + (int)threadIdx.x, slot = row < tile.end ? routing.rowSlot()[row] : -1;
      token[threadIdx.x] = slot < 0 ? -1 : routing.tokenOfSlot(slot);
      gate[threadIdx.x] = slot < 0 || !gates ? 1.0f : gates[slot];
    }
    __syncthreads();
  }
};

/// gate, up and act = silu(gate) * up of every routed row; x is gathered in the load. One product with half a tile's columns of
/// w_gate beside the same columns of w_up, so that a thread has both numbers of a place.
extern "C" __global__ void __launch_bounds__(256, 2)
    experts_up(float *gate, float *up, float *act, const float *x, const float *wGate, const float *wUp, Routing routing,
               int width, int hidden) {
  const ExpertTile tile = expertTile(routing, blockIdx.y, tileSize);
  if (tile.expert < 0)
    return;
  __shared__ TileTokens tokens;
  tokens.fill(tile, routing, nullptr);
  const int half = tileSize / 2, firstColumn = blockIdx.x * half, columns = hidden - firstColumn;
  const int64 at = ((int64)tile.expert * hidden + firstColumn) * width;
  TileResult<> result;
  multiplyTile(
      result, width, true,
      [&](int line, int k) { return tokens.token[line] < 0 ? 0.0f : x[(int64)tokens.token[line] * width + k]; }, true,
      [&](int line, int k) {
        const int column = line % half;
        return column < columns ? (line < half ? wGate : wUp)[at + (int64)column * width + k] : 0.0f;
      });
  for (int i = 0; i < result.rows; ++i)
    for (int j = 0; j < result.columns / 2; ++j) {
      const int row = tile.begin + result.rowOf(i), column = result.columnOf(j);
      if (row >= tile.end || column >= columns)
        continue;
      const int64 place = (int64)row * hidden + firstColumn + column;
      const float g = result.value[i][j], u = result.value[i][j + result.columns / 2];
      gate[place] = g;
      up[place] = u;
      act[place] = silu(g) * u;
    }
}

/// dact = (gate value) dout[token] w_down, then the adjoint of act = silu(gate) * up.
extern "C" __global__ void __launch_bounds__(256, 2)
    experts_down_gradient(float *dgate, float *dup, const float *dout, const float *gates, const float *wDown,
                          const float *gate, const float *up, Routing routing, int width, int hidden) {
  const ExpertTile tile = expertTile(routing, blockIdx.y, tileSize);
  if (tile.expert < 0)
    return;
  __shared__ TileTokens tokens;
  tokens.fill(tile, routing, gates);
  const int firstColumn = blockIdx.x * tileSize;
  TileResult<> result;
  multiplyTile(
      result, width, true,
      [&](int line, int k) {
        return tokens.token[line] < 0 ? 0.0f : tokens.gate[line] * dout[(int64)tokens.token[line] * width + k];
      },
      false, StridedLines{wDown + (int64)tile.expert * width * hidden + firstColumn, 1, hidden, hidden - firstColumn});
  result.forEach([&](int row, int column, float dact) {
    row += tile.begin;
    column += firstColumn;
    if (row >= tile.end || column >= hidden)
      return;
    const int64 place = (int64)row * hidden + column;
    const float g = gate[place], s = sigmoid(g);
    dgate[place] = dact * up[place] * s * (1.0f + g * (1.0f - s));
    dup[place] = dact * g * s;
  });
}

/// dx[r] = dgate[r] w_gate + dup[r] w_up of r's expert, in expert order.
extern "C" __global__ void __launch_bounds__(256, 2)
    experts_up_gradient_rows(float *dx, const float *dgate, const float *dup, const float *wGate, const float *wUp,
                             Routing routing, int width, int hidden) {
  const ExpertTile tile = expertTile(routing, blockIdx.y, tileSize);
  if (tile.expert < 0)
    return;
  const int firstColumn = blockIdx.x * tileSize, rows = tile.end - tile.begin;
  const int64 at = (int64)tile.expert * hidden * width + firstColumn, from = (int64)tile.begin * hidden;
  TileResult<> result;
  multiplyTile(result, hidden, true, StridedLines{dgate + from, hidden, 1, rows}, false,
               StridedLines{wGate + at, 1, width, width - firstColumn});
  multiplyTile(result, hidden, true, StridedLines{dup + from, hidden, 1, rows}, false,
               StridedLines{wUp + at, 1, width, width - firstColumn});
  result.forEach([&](int row, int column, float value) {
    column += firstColumn;
    if (row < rows && column < width)
      dx[(int64)(tile.begin + row) * width + column] = value;
  });
}
