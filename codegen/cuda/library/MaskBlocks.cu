// Products over the kept blocks of a mask: the grouped product's tiles (Grouped.cuh) with the blocks of a line of blocks as the
// pieces of the sum. The list of kept blocks is made of the mask's bits by the command that reads it, so it is never stale.
#include "Grouped.cuh"
#include "Mask.cuh"

/// Matrices [out, in] of blocks [blockRows, blockColumns], numbered row by row. A line is a row of blocks, or a column of them
/// with `byColumns`. `capacity` is the largest number of kept blocks of a matrix.
struct MaskBlocks {
  int matrices, out, in, blockRows, blockColumns, capacity, byColumns;

  __device__ int down() const { return out / blockRows; }
  __device__ int across() const { return in / blockColumns; }
  __device__ int lines() const { return byColumns ? across() : down(); }
  __device__ int lineLength() const { return byColumns ? down() : across(); }
  __device__ bool kept(const unsigned char *bits, int64 matrix, int line, int at) const {
    const int64 row = (int64)(byColumns ? at : line) * blockRows, column = (int64)(byColumns ? line : at) * blockColumns;
    return isKept(bits, (matrix * out + row) * in + column);
  }
};

/// counts[matrix][line]: kept blocks of each line; places[matrix][line][..]: where they lie in it, ascending, in a row that has
/// room for all. One warp a line.
extern "C" __global__ void __launch_bounds__(256)
    list_blocks(int *counts, int *places, const unsigned char *bits, MaskBlocks shape) {
  const int64 index = globalWarp();
  if (index >= (int64)shape.matrices * shape.lines())
    return;
  int *own = places + index * shape.lineLength();
  int count = 0;
  for (int first = 0; first < shape.lineLength(); first += 32) {
    const int at = first + lane();
    const bool kept = at < shape.lineLength() && shape.kept(bits, index / shape.lines(), (int)(index % shape.lines()), at);
    const uint32 ballot = __ballot_sync(0xffffffffu, kept);
    if (kept)
      own[count + __popc(ballot & ((1u << lane()) - 1))] = at;
    count += __popc(ballot);
  }
  if (lane() == 0)
    counts[index] = count;
}

/// What list_blocks wrote.
struct BlockList {
  const int *counts, *places;
};

/// The kept blocks of one line as pieces of a sum (WholeDepth).
struct LineOfBlocks {
  const int *places;
  int size, depth;

  __device__ LineOfBlocks(const BlockList &list, const MaskBlocks &shape, int64 line) // of all matrices
      : places(list.places + line * shape.lineLength()), size(list.counts[line]),
        depth(shape.byColumns ? shape.blockRows : shape.blockColumns) {}
  __device__ int count() const { return size; }
  __device__ int begin(int piece) const { return places[piece] * depth; }
};

/// A kept block.
struct Block {
  int line, place; // line < 0: there is none
};

/// Kept block number `index` of a matrix, line by line. Whole warps call it; every lane gets the same.
__device__ inline Block findBlock(const BlockList &list, const MaskBlocks &shape, int64 matrix, int index) {
  const int *counts = list.counts + matrix * shape.lines();
  for (int first = 0; first < shape.lines(); first += 32) {
    const int own = first + lane() < shape.lines() ? counts[first + lane()] : 0;
    int upTo = own; // this lane's line
    for (int distance = 1; distance < 32; distance *= 2) {
      const int other = __shfl_up_sync(0xffffffffu, upTo, distance);
      upTo += lane() >= distance ? other : 0;
    }
    const uint32 beyond = __ballot_sync(0xffffffffu, upTo > index);
    if (beyond) {
      const int found = __ffs((int)beyond) - 1, line = first + found;
      const int before = __shfl_sync(0xffffffffu, upTo - own, found);
      return {line, list.places[(matrix * shape.lines() + line) * shape.lineLength() + index - before]};
    }
    index -= __shfl_sync(0xffffffffu, upTo, 31);
  }
  return {-1, 0};
}

/// One tile of y = x w^T (blocks listed by rows) or, transposed, of dx = dy w (by columns): columns of one line of blocks, whose
/// width is a multiple of `columnCount`. As many results as a square tile has, so that every thread is busy.
template <int columnCount>
__device__ inline void blockProduct(const GroupedProduct &product, const BlockList &list, const MaskBlocks &shape,
                                    const Routing &routing) {
  const int rowCount = tileSize * tileSize / columnCount;
  const ExpertTile tile = groupTile(routing, blockIdx.y, rowCount);
  if (tile.expert < 0)
    return;
  const int firstColumn = blockIdx.x * columnCount;
  const int line = firstColumn / (shape.byColumns ? shape.blockColumns : shape.blockRows);
  product.tile<rowCount, columnCount>(tile, firstColumn, product.out, LineOfBlocks(list, shape, (int64)tile.expert * shape.lines() + line));
}

extern "C" __global__ void __launch_bounds__(256, 2)
    block_gemm_16(GroupedProduct product, const int *counts, const int *places, MaskBlocks shape, Routing routing) {
  blockProduct<16>(product, {counts, places}, shape, routing);
}
extern "C" __global__ void __launch_bounds__(256, 2)
    block_gemm_32(GroupedProduct product, const int *counts, const int *places, MaskBlocks shape, Routing routing) {
  blockProduct<32>(product, {counts, places}, shape, routing);
}
extern "C" __global__ void __launch_bounds__(256, 2)
    block_gemm_64(GroupedProduct product, const int *counts, const int *places, MaskBlocks shape, Routing routing) {
  blockProduct<64>(product, {counts, places}, shape, routing);
}

/// One tile of one kept block of dw: dw[o][i] (+)= sum over the group's rows, in increasing order, of dy[r][o] x[r][i]. Blocks are
/// listed by rows, and their sides are multiples of `size`.
template <int size>
__device__ inline void blockWeightGradient(float *dw, const float *dy, const float *x, const BlockList &list,
                                           const MaskBlocks &shape, const Routing &routing, int accumulate) {
  const int matrix = blockIdx.y, tilesAcross = shape.blockColumns / size, tiles = shape.blockRows / size * tilesAcross;
  const int tile = blockIdx.x % tiles;
  const Block block = findBlock(list, shape, matrix, blockIdx.x / tiles);
  if (block.line < 0) // fewer are kept now than there may be
    return;
  const int begin = routing.buffer ? routing.offsets()[matrix] : 0;
  const int end = routing.buffer ? routing.offsets()[matrix + 1] : routing.rows();
  weightGradientTile<size, size>(
      dw + (int64)matrix * shape.out * shape.in, shape.out, shape.in,
      block.line * shape.blockRows + tile / tilesAcross * size,
      block.place * shape.blockColumns + tile % tilesAcross * size, end - begin,
      [&](int row, int column) { return dy[(int64)(begin + row) * shape.out + column]; },
      [&](int row, int column) { return x[(int64)(begin + row) * shape.in + column]; }, accumulate != 0);
}

extern "C" __global__ void __launch_bounds__(256, 2)
    block_weight_gradient_16(float *dw, const float *dy, const float *x, const int *counts, const int *places, MaskBlocks shape,
                             Routing routing, int accumulate) {
  blockWeightGradient<16>(dw, dy, x, {counts, places}, shape, routing, accumulate);
}
extern "C" __global__ void __launch_bounds__(256, 2)
    block_weight_gradient_32(float *dw, const float *dy, const float *x, const int *counts, const int *places, MaskBlocks shape,
                             Routing routing, int accumulate) {
  blockWeightGradient<32>(dw, dy, x, {counts, places}, shape, routing, accumulate);
}
extern "C" __global__ void __launch_bounds__(256, 2)
    block_weight_gradient_64(float *dw, const float *dy, const float *x, const int *counts, const int *places, MaskBlocks shape,
                             Routing routing, int accumulate) {
  blockWeightGradient<64>(dw, dy, x, {counts, places}, shape, routing, accumulate);
}
