// One matrix product of a fixed shape, run by one thread at a time on each worker: oneDNN or our own SIMD
// kernel.
#pragma once

#include "runtime/device/cpu/Kernel.h"

namespace sluice::cpu {

/// C[rows, columns] = (accumulate ? C : 0) + op(A) op(B), all row-major with the given leading dimensions.
/// op(A) is [rows, depth], stored as [depth, rows] when transposeA; op(B) is [depth, columns], stored as
/// [columns, depth] when transposeB.
struct ProductShape {
  int64_t rows, columns, depth;
  int64_t leadingA, leadingB, leadingC;
  bool transposeA = false, transposeB = false, accumulate = false;
  bool packB = false; // B may be kept in the layout that the library prefers (see packedBytes)
};

class Product {
public:
  virtual ~Product() = default;
  /// Picks the engine, which depends on the shape and the host's instruction set alone, and creates it.
  static StatusOr<std::shared_ptr<const Product>> create(const ProductShape &shape, int workers);

  uint64_t scratchBytes() const { return scratch; }
  /// Bytes of B in the preferred layout; 0 when B is used in place.
  uint64_t packedBytes() const { return packed; }
  /// Writes B's packed copy.
  virtual void pack(int worker, const float *b, float *target) const = 0;
  /// Computes the product; `b` is the packed copy when packedBytes() > 0.
  virtual void run(int worker, const float *a, const float *b, float *c, std::byte *scratch) const = 0;

protected:
  uint64_t scratch = 0, packed = 0;
};

/// Whether a product has failed inside the library since the last call; such a command's results are
/// worthless.
bool takeProductFailure();

/// A product cut into fixed output tiles; every tile reduces over the whole depth in fixed pieces.
class TiledProduct {
public:
  /// Tile sizes follow from the shape alone.
  static StatusOr<TiledProduct> create(const ProductShape &shape, int workers);
  /// The same with given tile sizes.
  static StatusOr<TiledProduct> create(const ProductShape &shape, int workers, int64_t tileRows,
                                       int64_t tileColumns);

  struct Range {
    int64_t row, rows, column, columns;
  };
  int64_t tiles() const { return rowTiles * columnTiles; }
  Range range(int64_t tile) const;
  uint64_t scratchBytes() const { return scratch; }
  /// Computes output tile `tile`; `packedB` is B's packed copy, or null to use B in place.
  void run(int64_t tile, int worker, const float *a, const float *b, const float *packedB, float *c,
           std::byte *scratch) const;

  /// The packed copy of B is made of one block a column tile.
  uint64_t packedBytes() const { return packedStride * static_cast<uint64_t>(columnTiles); }
  int64_t packTiles() const { return columnTiles; }
  void pack(int64_t tile, int worker, const float *b, float *packedB) const;

private:
  const Product &piece(bool lastRow, bool lastColumn, bool lastDepth, bool first) const;
  /// Where a column tile's block starts in the packed copy, in elements.
  uint64_t packedOffset(int64_t columnTile) const {
    return static_cast<uint64_t>(columnTile) * packedStride / sizeof(float);
  }

  ProductShape shape{};
  int64_t tileRows = 0, tileColumns = 0, tileDepth = 0;
  int64_t rowTiles = 0, columnTiles = 0, depthTiles = 0;
  uint64_t scratch = 0, packedStride = 0;
  // Indexed by whether the piece is the last of the rows, columns and depth, and whether it is the first.
  std::shared_ptr<const Product> pieces[2][2][2][2];
};

/// A product with one extent (rows or depth) known only at run time, at most `most`: a few fixed extents are
/// prepared, and callers pad with zeros up to padded(extent).
class VariableProduct {
public:
  enum class Extent { Rows, Depth };
  static StatusOr<VariableProduct> create(ProductShape shape, Extent extent, int64_t most, int workers);
  /// The smallest prepared extent >= `extent`.
  int64_t padded(int64_t extent) const;
  uint64_t scratchBytes() const { return scratch; }
  /// `extent` is a prepared one.
  void run(int64_t extent, int worker, const float *a, const float *b, float *c, std::byte *scratch) const;

private:
  std::vector<std::pair<int64_t, std::shared_ptr<const Product>>> products; // increasing extents
  uint64_t scratch = 0;
};

} // namespace sluice::cpu
