// layer_norm: y = (x - mean) r (gain) (+ bias) with r = 1 / sqrt(variance + epsilon), row by row.
#include "dialects/sluice/AdjointUtils.h"
#include "dialects/sluice/Build.h"
#include "dialects/sluice/ops/Answers.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>

using namespace mlir;

namespace sluice {
namespace {

double widthOf(LayerNormOp op) {
  return static_cast<double>(tensorTypeOf(op.getX()).getShape().back());
}

/// The mean of each row.
Value rowMean(OpBuilder &builder, Location loc, Value x, double width) {
  return buildMap(builder, loc, reduceRows(builder, loc, x),
                  [&](OpBuilder &inner, Location at, ValueRange s) {
                    Scalars scalars(inner, at);
                    return scalars.divide(s[0], scalars.constant(width, s[0].getType()));
                  });
}

/// x - mean(x), row by row.
Value centered(OpBuilder &builder, Location loc, Value x, double width) {
  Value mean = rowMean(builder, loc, x, width);
  return buildMap(builder, loc, {x, mean}, [](OpBuilder &inner, Location at, ValueRange s) {
    return Scalars(inner, at).subtract(s[0], s[1]);
  });
}

/// Elementwise a * b; `b` repeats where it is smaller.
Value times(OpBuilder &builder, Location loc, Value a, Value b) {
  return buildMap(builder, loc, {a, b}, [](OpBuilder &inner, Location at, ValueRange s) {
    return Scalars(inner, at).multiply(s[0], s[1]);
  });
}

} // namespace

LogicalResult LayerNormOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                            ValueRange operands, DictionaryAttr, OpaqueProperties,
                                            RegionRange, llvm::SmallVectorImpl<Type> &types) {
  if (failed(inferRank(location, "layer_norm", "x", operands[0], 1)))
    return failure();
  llvm::SmallVector<Dim> dims = dimsOf(operands[0].getType());
  types.push_back(tensorOf(dims, elementTypeOf(operands[0])));
  dims.back() = Dim(1);
  types.push_back(tensorOf(dims, elementTypeOf(operands[0])));
  return success();
}

LogicalResult LayerNormOp::verify() {
  if (!(getEpsilon().convertToDouble() >= 0))
    return ruleError(*this) << "epsilon must not be negative, found " << getEpsilon().convertToDouble();
  if (failed(requireRank(*this, "x", getX(), 1)))
    return failure();
  const std::string why = "the last size of x " + shapeText(getX().getType());
  const Dim width = dimsOf(getX().getType()).back();
  if (getGain() && failed(requireShape(*this, "gain", getGain(), {width}, why)))
    return failure();
  return getBias() ? requireShape(*this, "bias", getBias(), {width}, why) : success();
}

OpCounts LayerNormOp::count() {
  // Per element: sum, subtract the mean, square, sum, scale (gain) (bias). Per row: two means, epsilon,
  // reciprocal root.
  const Count elements = elementCount(getX()), rows = rowCount(getX());
  ClassCounts counts;
  counts.multiply = (getGain() ? 3 : 2) * elements;
  counts.add = (getBias() ? 4 : 3) * elements + rows;
  counts.divide = 3 * rows;
  return OpCounts::same(counts);
}

RecomputeCost LayerNormOp::recomputeCost() {
  return RecomputeCost::Cheap;
}

LogicalResult LayerNormOp::evaluate(Evaluation &evaluation) {
  const HostTensor &x = evaluation.operand(0);
  const HostTensor *gain = getGain() ? &evaluation.operand(1) : nullptr;
  const HostTensor *bias = getBias() ? &evaluation.operand(gain ? 2 : 1) : nullptr;
  HostTensor &y = evaluation.result(0), &reciprocal = evaluation.result(1);
  const int64_t width = x.columns();
  for (int64_t row = 0; row < x.rows(); ++row) {
    double mean = 0, variance = 0;
    for (int64_t j = 0; j < width; ++j)
      mean += x[row * width + j];
    mean /= static_cast<double>(width);
    for (int64_t j = 0; j < width; ++j)
      variance += (x[row * width + j] - mean) * (x[row * width + j] - mean);
    const double r = 1.0 / std::sqrt(variance / static_cast<double>(width) + getEpsilon().convertToDouble());
    reciprocal[row] = r;
    for (int64_t j = 0; j < width; ++j)
      y[row * width + j] =
          (x[row * width + j] - mean) * r * (gain ? (*gain)[j] : 1.0) + (bias ? (*bias)[j] : 0.0);
  }
  return success();
}

llvm::ArrayRef<int64_t> LayerNormOp::adjointReadsOperands() {
  static constexpr int64_t all[] = {0, 1};
  return llvm::ArrayRef<int64_t>(all).take_front(getGain() ? 2 : 1);
}
llvm::ArrayRef<int64_t> LayerNormOp::adjointReadsResults() {
  static constexpr int64_t all[] = {1};
  return all;
}

LogicalResult LayerNormOp::buildAdjoint(AdjointBuilder &adjoint) {
  OpBuilder &builder = adjoint.builder;
  Location loc = adjoint.loc;
  if (adjoint.cotangent(1))
    return ruleError(*this)
           << "the reciprocal standard deviation is for the adjoint only and has no cotangent";
  Value dy = adjoint.cotangent(0);
  if (!dy)
    return success();
  const unsigned gainIndex = 1, biasIndex = getGain() ? 2 : 1;
  if (getBias() && adjoint.needed(biasIndex))
    adjoint.setOperandCotangent(biasIndex, reduceLike(builder, loc, dy, getBias().getType()));
  const bool gainNeeded = getGain() && adjoint.needed(gainIndex);
  if (!gainNeeded && !adjoint.needed(0))
    return success();
  const double width = widthOf(*this);
  Value normal = times(builder, loc, centered(builder, loc, getX(), width), getReciprocal());
  if (gainNeeded)
    adjoint.setOperandCotangent(
        gainIndex, reduceLike(builder, loc, times(builder, loc, dy, normal), getGain().getType()));
  if (adjoint.needed(0)) {
    // With t = gain dy and n = (x - mean) r: dx = r (t - mean(t) - n mean(t n)).
    Value t = getGain() ? times(builder, loc, dy, getGain()) : dy;
    Value mean = rowMean(builder, loc, t, width),
          along = rowMean(builder, loc, times(builder, loc, t, normal), width);
    auto combine = [](OpBuilder &inner, Location at, ValueRange s) {
      Scalars scalars(inner, at);
      Value rest = scalars.subtract(s[0], s[3]);
      return scalars.multiply(s[2], scalars.subtract(rest, scalars.multiply(s[1], s[4])));
    };
    adjoint.setOperandCotangent(0,
                                buildMap(builder, loc, {t, normal, getReciprocal(), mean, along}, combine));
  }
  return success();
}

std::string LayerNormOp::commandKind() {
  return "";
}
void LayerNormOp::commandAttributes(NamedAttrList &) {}

LogicalResult LayerNormOp::decompose(OpBuilder &builder, llvm::SmallVectorImpl<Value> &results) {
  Location loc = getLoc();
  const double width = widthOf(*this), epsilon = getEpsilon().convertToDouble();
  Value distance = centered(builder, loc, getX(), width);
  Value variance = rowMean(builder, loc, times(builder, loc, distance, distance), width);
  Value reciprocal =
      buildMap(builder, loc, variance, [&](OpBuilder &inner, Location at, ValueRange s) -> Value {
        Scalars scalars(inner, at);
        return math::RsqrtOp::create(inner, at, scalars.add(s[0], scalars.constant(epsilon, s[0].getType())));
      });
  Value y = times(builder, loc, distance, reciprocal);
  if (getGain())
    y = times(builder, loc, y, getGain());
  if (getBias())
    y = buildMap(builder, loc, {y, getBias()}, [](OpBuilder &inner, Location at, ValueRange s) {
      return Scalars(inner, at).add(s[0], s[1]);
    });
  results.assign({y, reciprocal});
  return success();
}

} // namespace sluice
