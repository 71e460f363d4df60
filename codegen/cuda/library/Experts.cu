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
    const float value = data[(int64)(gathered ? slot / routing.topK : row) * width + column];
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

/// gate, up and act = silu(gate) * up of every routed row; x is gathered in the load.
extern "C" __global__ void __launch_bounds__(256, 2)
    experts_up(float *gate, float *up, float *act, const float *x, const float *wGate, const float *wUp, Routing routing,
               int width, int hidden) {
  const ExpertTile tile = expertTile(routing, blockIdx.y, tileSize);
  if (tile.expert < 0)
    return;
  const int firstColumn = blockIdx.x * tileSize, rows = tile.end - tile.begin;
  const ExpertRows source{x, nullptr, width, true, routing};
  auto load = [&](int line, int k) { return line < rows ? source(tile.begin + line, k) : 0.0f; };
  const int64 at = ((int64)tile.expert * hidden + firstColumn) * width;
  TileResult<> gates, ups;
  multiplyTile(gates, width, true, load, true, StridedLines{wGate + at, width, 1, hidden - firstColumn});
  multiplyTile(ups, width, true, load, true, StridedLines{wUp + at, width, 1, hidden - firstColumn});
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      const int row = threadIdx.x / 16 + 16 * i, column = firstColumn + threadIdx.x % 16 + 16 * j;
      if (row >= rows || column >= hidden)
        continue;
      const int64 place = (int64)(tile.begin + row) * hidden + column;
      const float g = gates.value[i][j], u = ups.value[i][j];
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
  const int firstColumn = blockIdx.x * tileSize, rows = tile.end - tile.begin;
  const ExpertRows source{dout, gates, width, true, routing};
  TileResult<> result;
  multiplyTile(
      result, width, true, [&](int line, int k) { return line < rows ? source(tile.begin + line, k) : 0.0f; }, false,
      StridedLines{wDown + (int64)tile.expert * width * hidden + firstColumn, 1, hidden, hidden - firstColumn});
  result.forEach([&](int row, int column, float dact) {
    column += firstColumn;
    if (row >= rows || column >= hidden)
      return;
    const int64 place = (int64)(tile.begin + row) * hidden + column;
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
