#include "runtime/device/cpu/GroupedProduct.h"

#include "runtime/device/cpu/RowMath.h"

namespace sluice::cpu {

bool findRowTile(const RoutingBuffer &routing, int64_t index, RowTile &tile) {
  const int32_t *offsets = routing.offsets();
  for (bool full : {true, false})
    for (int64_t expert = 0; expert < routing.experts; ++expert) {
      const int64_t rows = offsets[expert + 1] - offsets[expert], whole = rows / groupedTileRows;
      const int64_t count = full ? whole : (rows % groupedTileRows != 0);
      if (index < count) {
        const int64_t begin = full ? index * groupedTileRows : whole * groupedTileRows;
        tile = {expert, offsets[expert] + begin, std::min(groupedTileRows, rows - begin)};
        return true;
      }
      index -= count;
    }
  return false;
}

StatusOr<GroupedProduct> GroupedProduct::create(int64_t columns, int64_t depth, bool transposeB,
                                                bool accumulate, int workers) {
  GroupedProduct grouped;
  grouped.columns = columns;
  grouped.depth = depth;
  grouped.transposeB = transposeB;
  grouped.tileColumns = std::min<int64_t>(columns, 512);
  const int64_t leadingB = transposeB ? depth : columns;
  ProductShape shape{groupedTileRows, grouped.tileColumns, depth, depth, leadingB, grouped.tileColumns};
  shape.transposeB = transposeB;
  shape.accumulate = accumulate;
  SLUICE_ASSIGN_OR_RETURN(
      grouped.main, VariableProduct::create(shape, VariableProduct::Extent::Rows, groupedTileRows, workers));
  shape.columns = grouped.width(grouped.columnTiles() - 1);
  SLUICE_ASSIGN_OR_RETURN(
      grouped.edge, VariableProduct::create(shape, VariableProduct::Extent::Rows, groupedTileRows, workers));
  return grouped;
}

void GroupedProduct::run(int64_t rows, int64_t columnTile, int worker, const float *a, const float *b,
                         float *c, std::byte *scratch) const {
  const float *tileB = b + (transposeB ? column(columnTile) * depth : column(columnTile));
  const VariableProduct &product = columnTile + 1 == columnTiles() ? edge : main;
  product.run(rows, worker, a, tileB, c, scratch);
}

const float *loadRows(const float *source, int64_t width, const RowTile &tile, int64_t padded,
                      float *scratch) {
  const float *rows = source + tile.begin * width;
  if (padded == tile.count)
    return rows;
  std::copy_n(rows, tile.count * width, scratch);
  std::fill_n(scratch + tile.count * width, (padded - tile.count) * width, 0.0f);
  return scratch;
}

const float *gatherRows(const RoutingBuffer &routing, const float *x, const float *gates, int64_t width,
                        const RowTile &tile, int64_t padded, float *scratch) {
  for (int64_t i = 0; i < tile.count; ++i) {
    const int64_t slot = routing.rowSlot()[tile.begin + i];
    const float *source = x + slot / routing.topK * width;
    if (gates)
      rowScale(source, width, gates[slot], scratch + i * width);
    else
      std::copy_n(source, width, scratch + i * width);
  }
  std::fill_n(scratch + tile.count * width, (padded - tile.count) * width, 0.0f);
  return scratch;
}

namespace {

/// One (expert, output tile): reduces over the expert's rows in pieces of `depthTile` in increasing order.
class WeightGradient {
public:
  static constexpr int64_t depthTile = tiles::groupedDepth, leftTile = 128, rightTile = 256;

  WeightGradient(const RoutingBuffer &routing, const GradientOperand &left, const GradientOperand &right,
                 float *dw, bool accumulate)
      : routing(routing), left(left), right(right), dw(dw), accumulate(accumulate) {}

  int64_t leftTiles() const { return ceilDivide(left.width, leftTile); }
  int64_t rightTiles() const { return ceilDivide(right.width, rightTile); }
  int64_t tiles() const { return routing.experts * leftTiles() * rightTiles(); }
  static uint64_t operandBytes() {
    return floatBytes(depthTile * leftTile) + floatBytes(depthTile * rightTile);
  }
  uint64_t scratchBytes() const { return operandBytes() + productScratch; }

  Status prepare(int workers) {
    for (int index = 0; index < 8; ++index) {
      const bool lastLeft = index & 1, lastRight = index & 2, adds = index & 4;
      ProductShape shape{};
      shape.rows = lastLeft ? left.width - (leftTiles() - 1) * leftTile : std::min(leftTile, left.width);
      shape.columns =
          lastRight ? right.width - (rightTiles() - 1) * rightTile : std::min(rightTile, right.width);
      shape.depth = depthTile;
      shape.leadingA = left.gathered ? leftTile : left.width;
      shape.leadingB = right.gathered ? rightTile : right.width;
      shape.leadingC = right.width;
      shape.transposeA = true;
      shape.accumulate = adds;
      Pieces &made = pieces[lastLeft][lastRight][adds];
      SLUICE_ASSIGN_OR_RETURN(made.full, Product::create(shape, workers));
      shape.leadingA = leftTile;
      shape.leadingB = rightTile;
      SLUICE_ASSIGN_OR_RETURN(
          made.rest, VariableProduct::create(shape, VariableProduct::Extent::Depth, depthTile, workers));
      productScratch = std::max({productScratch, made.full->scratchBytes(), made.rest.scratchBytes()});
    }
    return absl::OkStatus();
  }

  void run(const Tile &tile) const {
    const int64_t expert = tile.index / (leftTiles() * rightTiles());
    const int64_t leftIndex = tile.index / rightTiles() % leftTiles(), rightIndex = tile.index % rightTiles();
    const int64_t row = leftIndex * leftTile, rows = std::min(leftTile, left.width - row);
    const int64_t column = rightIndex * rightTile, columns = std::min(rightTile, right.width - column);
    float *c = dw + (expert * left.width + row) * right.width + column;
    const int64_t begin = routing.offsets()[expert], end = routing.offsets()[expert + 1];
    if (begin == end && !accumulate)
      for (int64_t i = 0; i < rows; ++i)
        std::fill_n(c + i * right.width, columns, 0.0f);
    float *leftScratch = reinterpret_cast<float *>(tile.scratch);
    float *rightScratch = leftScratch + depthTile * leftTile;
    std::byte *scratch = tile.scratch + operandBytes();
    for (int64_t at = begin; at < end; at += depthTile) {
      const int64_t count = std::min(depthTile, end - at);
      const Pieces &made =
          pieces[leftIndex + 1 == leftTiles()][rightIndex + 1 == rightTiles()][accumulate || at > begin];
      if (count == depthTile) {
        made.full->run(tile.worker, load(left, at, count, count, row, rows, leftTile, leftScratch),
                       load(right, at, count, count, column, columns, rightTile, rightScratch), c, scratch);
        continue;
      }
      const int64_t padded = made.rest.padded(count);
      copy(left, at, count, padded, row, rows, leftTile, leftScratch);
      copy(right, at, count, padded, column, columns, rightTile, rightScratch);
      made.rest.run(padded, tile.worker, leftScratch, rightScratch, c, scratch);
    }
  }

private:
  struct Pieces {
    std::shared_ptr<const Product> full;
    VariableProduct rest;
  };

  /// Columns [column, column + columns) of rows [at, at + count), with leading dimension `leading`, zero rows
  /// behind.
  void copy(const GradientOperand &operand, int64_t at, int64_t count, int64_t padded, int64_t column,
            int64_t columns, int64_t leading, float *target) const {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t slot = operand.gathered ? routing.rowSlot()[at + i] : 0;
      const int64_t row = operand.gathered ? slot / routing.topK : at + i;
      const float *source = operand.data + row * operand.width + column;
      if (operand.gates)
        rowScale(source, columns, operand.gates[slot], target + i * leading);
      else
        std::copy_n(source, columns, target + i * leading);
    }
    std::fill_n(target + count * leading, (padded - count) * leading, 0.0f);
  }

  const float *load(const GradientOperand &operand, int64_t at, int64_t count, int64_t padded, int64_t column,
                    int64_t columns, int64_t leading, float *target) const {
    if (!operand.gathered)
      return operand.data + at * operand.width + column;
    copy(operand, at, count, padded, column, columns, leading, target);
    return target;
  }

  RoutingBuffer routing;
  GradientOperand left, right;
  float *dw;
  bool accumulate;
  uint64_t productScratch = 0;
  Pieces pieces[2][2][2]; // last left tile, last right tile, accumulating
};

} // namespace

Status addWeightGradient(PreparedKernel &kernel, const RoutingBuffer &routing, const GradientOperand &left,
                         const GradientOperand &right, float *dw, bool accumulate, int workers) {
  if (left.width == 0 || right.width == 0)
    return absl::OkStatus();
  auto gradient = std::make_shared<WeightGradient>(routing, left, right, dw, accumulate);
  SLUICE_RETURN_IF_ERROR(gradient->prepare(workers));
  kernel.scratchBytes = std::max(kernel.scratchBytes, gradient->scratchBytes());
  kernel.stages.push_back({gradient->tiles(), [gradient](const Tile &tile) { gradient->run(tile); }});
  return absl::OkStatus();
}

} // namespace sluice::cpu
