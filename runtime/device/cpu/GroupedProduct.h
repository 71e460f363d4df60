// Products over the rows of each expert, cut into tiles whose number is known before the routing is.
#pragma once

#include "runtime/abi/Tiles.h"
#include "runtime/device/cpu/Product.h"
#include "runtime/device/cpu/RoutingBuffer.h"

namespace sluice::cpu {

/// Rows of one expert that one tile computes.
struct RowTile {
  int64_t expert, begin, count;
};

/// Rows of the largest tile.
inline constexpr int64_t groupedTileRows = tiles::groupedRows;

/// An upper bound of the row tiles whatever the routing: R / tile full ones and a rest of each expert.
inline int64_t rowTileBound(const RoutingBuffer &routing) {
  return routing.rows() / groupedTileRows + routing.experts;
}
/// Tile `index`: the full tiles of all experts come first, then the rests. False for a surplus index.
bool findRowTile(const RoutingBuffer &routing, int64_t index, RowTile &tile);

/// C[rows of an expert, columns] (+)= A[rows, depth] op(B): A and C lie in tile scratch, B is one expert's
/// matrix.
class GroupedProduct {
public:
  /// B is [columns, depth] when transposeB, else [depth, columns].
  static StatusOr<GroupedProduct> create(int64_t columns, int64_t depth, bool transposeB, bool accumulate,
                                         int workers);

  int64_t columnTiles() const { return ceilDivide(columns, tileColumns); }
  int64_t column(int64_t columnTile) const { return columnTile * tileColumns; }
  int64_t width(int64_t columnTile) const { return std::min(tileColumns, columns - column(columnTile)); }
  /// Leading dimension of the tile's C.
  int64_t leadingC() const { return tileColumns; }
  int64_t paddedRows(int64_t rows) const { return main.padded(rows); }
  uint64_t scratchBytes() const { return std::max(main.scratchBytes(), edge.scratchBytes()); }
  /// Bytes of a tile's A and C.
  uint64_t bytesA() const { return floatBytes(groupedTileRows * depth); }
  uint64_t bytesC() const { return floatBytes(groupedTileRows * tileColumns); }
  /// `rows` is a padded count; a has leading dimension depth, rows past the real ones hold zeros; b is the
  /// expert's whole matrix.
  void run(int64_t rows, int64_t columnTile, int worker, const float *a, const float *b, float *c,
           std::byte *scratch) const;

private:
  int64_t columns = 0, depth = 0, tileColumns = 0;
  bool transposeB = false;
  VariableProduct main, edge;
};

/// The tile's rows of a matrix grouped by expert: in place when their count needs no padding, else copied to
/// `scratch`.
const float *loadRows(const float *source, int64_t width, const RowTile &tile, int64_t padded,
                      float *scratch);
/// The tile's rows gathered from token order, times their gates unless `gates` is null, padded with zero
/// rows.
const float *gatherRows(const RoutingBuffer &routing, const float *x, const float *gates, int64_t width,
                        const RowTile &tile, int64_t padded, float *scratch);

/// Where a weight gradient's operand comes from.
struct GradientOperand {
  const float *data; // [R, width] grouped by expert, or [T, width] in token order when gathered
  int64_t width;
  bool gathered = false;
  const float *gates = nullptr; // with gathered: [T, K], multiplies each row
};

/// A stage that computes dw[E, left.width, right.width] (+)= sum over each expert's rows of left^T right, and
/// adds what it needs to the kernel's scratch.
Status addWeightGradient(PreparedKernel &kernel, const RoutingBuffer &routing, const GradientOperand &left,
                         const GradientOperand &right, float *dw, bool accumulate, int workers);

} // namespace sluice::cpu
