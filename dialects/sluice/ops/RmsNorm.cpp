// rms_norm: y = x r gain with r = 1 / sqrt(mean(x^2) + epsilon), row by row.
#include "dialects/sluice/AdjointUtils.h"
#include "dialects/sluice/Build.h"
#include "dialects/sluice/ops/Answers.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>

using namespace mlir;

namespace sluice {

LogicalResult RmsNormOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                          ValueRange operands, DictionaryAttr attributes,
                                          OpaqueProperties properties, RegionRange regions,
                                          llvm::SmallVectorImpl<Type> &types) {
  Adaptor op(operands, attributes, properties, regions);
  if (failed(inferRank(location, "rms_norm", "x", op.getX(), 1)))
    return failure();
  llvm::SmallVector<Dim> dims = dimsOf(op.getX().getType());
  types.push_back(tensorOf(dims, elementTypeOf(op.getX())));
  dims.back() = Dim(1);
  types.push_back(tensorOf(dims, elementTypeOf(op.getX())));
  return success();
}

LogicalResult RmsNormOp::verify() {
  if (!(getEpsilon().convertToDouble() >= 0))
    return ruleError(*this) << "epsilon must not be negative, found " << getEpsilon().convertToDouble();
  if (failed(requireRank(*this, "x", getX(), 1)))
    return failure();
  return requireShape(*this, "gain", getGain(), {dimsOf(getX().getType()).back()},
                      "the last size of x " + shapeText(getX().getType()));
}

OpCounts RmsNormOp::count() {
  // Per element: square, sum, scale, gain. Per row: mean, epsilon, reciprocal root.
  const Count elements = elementCount(getX()), rows = rowCount(getX());
  ClassCounts counts;
  counts.multiply = 3 * elements;
  counts.add = (elements == rows ? Count(0) : elements) + rows; // one element is no sum
  counts.divide = 2 * rows;
  return OpCounts::same(counts);
}

RecomputeCost RmsNormOp::recomputeCost() {
  return RecomputeCost::Cheap;
}

LogicalResult RmsNormOp::evaluate(Evaluation &evaluation) {
  const HostTensor &x = evaluation.operand(0), &gain = evaluation.operand(1);
  HostTensor &y = evaluation.result(0), &reciprocal = evaluation.result(1);
  const int64_t width = x.columns();
  for (int64_t row = 0; row < x.rows(); ++row) {
    double sum = 0;
    for (int64_t j = 0; j < width; ++j)
      sum += x[row * width + j] * x[row * width + j];
    const double r = 1.0 / std::sqrt(sum / static_cast<double>(width) + getEpsilon().convertToDouble());
    reciprocal[row] = r;
    for (int64_t j = 0; j < width; ++j)
      y[row * width + j] = x[row * width + j] * r * gain[j];
  }
  return success();
}

LogicalResult RmsNormOp::buildAdjoint(AdjointBuilder &adjoint) {
  OpBuilder &builder = adjoint.builder;
  Location loc = adjoint.loc;
  if (adjoint.cotangent(1))
    return ruleError(*this) << "the reciprocal root mean square is for the adjoint only and has no cotangent";
  Value dy = adjoint.cotangent(0);
  if (!dy)
    return success();
  Value x = getX(), gain = getGain(), r = getReciprocal();
  if (adjoint.needed(0)) {
    // With t = gain dy: dx = r (t - x r mean(t x r)), because d r / d x = -r^3 x / width.
    const double width = static_cast<double>(tensorTypeOf(x).getShape().back());
    Value product = buildMap(builder, loc, {x, r, gain, dy}, [](OpBuilder &inner, Location at, ValueRange s) {
      Scalars scalars(inner, at);
      return scalars.multiply(scalars.multiply(s[2], s[3]), scalars.multiply(s[0], s[1]));
    });
    Value sum = reduceRows(builder, loc, product);
    auto combine = [&](OpBuilder &inner, Location at, ValueRange s) {
      Scalars scalars(inner, at);
      Value mean = scalars.divide(s[4], scalars.constant(width, s[4].getType()));
      Value along = scalars.multiply(scalars.multiply(s[0], s[1]), mean);
      return scalars.multiply(s[1], scalars.subtract(scalars.multiply(s[2], s[3]), along));
    };
    adjoint.setOperandCotangent(0, buildMap(builder, loc, {x, r, gain, dy, sum}, combine));
  }
  if (adjoint.needed(1)) {
    Value product = buildMap(builder, loc, {x, r, dy}, [](OpBuilder &inner, Location at, ValueRange s) {
      Scalars scalars(inner, at);
      return scalars.multiply(s[2], scalars.multiply(s[0], s[1]));
    });
    adjoint.setOperandCotangent(1, reduceLike(builder, loc, product, gain.getType()));
  }
  return success();
}

std::string RmsNormOp::commandKind() {
  return "";
}
void RmsNormOp::commandAttributes(NamedAttrList &) {}

LogicalResult RmsNormOp::decompose(OpBuilder &builder, llvm::SmallVectorImpl<Value> &results) {
  Location loc = getLoc();
  const double width = static_cast<double>(tensorTypeOf(getX()).getShape().back());
  const double epsilon = getEpsilon().convertToDouble();
  Value square = buildMap(builder, loc, getX(), [](OpBuilder &inner, Location at, ValueRange s) {
    return Scalars(inner, at).multiply(s[0], s[0]);
  });
  Value sum = reduceRows(builder, loc, square);
  Value reciprocal = buildMap(builder, loc, sum, [&](OpBuilder &inner, Location at, ValueRange s) -> Value {
    Scalars scalars(inner, at);
    Value mean = scalars.divide(s[0], scalars.constant(width, s[0].getType()));
    return math::RsqrtOp::create(inner, at, scalars.add(mean, scalars.constant(epsilon, mean.getType())));
  });
  Value y = buildMap(builder, loc, {getX(), reciprocal, getGain()},
                     [](OpBuilder &inner, Location at, ValueRange s) {
                       Scalars scalars(inner, at);
                       return scalars.multiply(scalars.multiply(s[0], s[1]), s[2]);
                     });
  results.assign({y, reciprocal});
  return success();
}

} // namespace sluice
