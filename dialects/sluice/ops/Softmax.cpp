// softmax over the last axis.
#include "dialects/sluice/Build.h"
#include "dialects/sluice/ops/Answers.h"

#include <cmath>

using namespace mlir;

namespace sluice {

LogicalResult SoftmaxOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                          ValueRange operands, DictionaryAttr, OpaqueProperties, RegionRange,
                                          llvm::SmallVectorImpl<Type> &types) {
  if (failed(inferRank(location, "softmax", "x", operands[0], 1)))
    return failure();
  types.push_back(operands[0].getType());
  return success();
}

OpCounts SoftmaxOp::count() {
  // Per score: maximum, subtraction, exp, sum, division; one score has no maximum and no sum.
  ClassCounts each;
  each.transcendental = each.divide = each.add = 1;
  if (sizeOf(getX(), -1) != 1)
    each.compare = 1, each.add = 2;
  return OpCounts::same(each.times(elementCount(getX())));
}

RecomputeCost SoftmaxOp::recomputeCost() {
  return RecomputeCost::Cheap;
}

LogicalResult SoftmaxOp::evaluate(Evaluation &evaluation) {
  const HostTensor &x = evaluation.operand(0);
  HostTensor &y = evaluation.result(0);
  const int64_t width = x.columns();
  for (int64_t row = 0; row < x.rows(); ++row) {
    double maximum = -INFINITY, sum = 0;
    for (int64_t j = 0; j < width; ++j)
      maximum = std::max(maximum, x[row * width + j]);
    for (int64_t j = 0; j < width; ++j)
      sum += y[row * width + j] = std::exp(x[row * width + j] - maximum);
    for (int64_t j = 0; j < width; ++j)
      y[row * width + j] /= sum;
  }
  return success();
}

LogicalResult SoftmaxOp::buildAdjoint(AdjointBuilder &adjoint) {
  Value dy = adjoint.cotangent(0);
  if (!dy || !adjoint.needed(0))
    return success();
  // dx = y (dy - sum(dy y)).
  Value product =
      buildMap(adjoint.builder, adjoint.loc, {getY(), dy},
               [](OpBuilder &b, Location loc, ValueRange v) { return Scalars(b, loc).multiply(v[0], v[1]); });
  Value sum = reduceRows(adjoint.builder, adjoint.loc, product);
  auto body = [](OpBuilder &b, Location loc, ValueRange v) {
    Scalars scalars(b, loc);
    return scalars.multiply(v[0], scalars.subtract(v[1], v[2]));
  };
  adjoint.setOperandCotangent(0, buildMap(adjoint.builder, adjoint.loc, {getY(), dy, sum}, body));
  return success();
}

std::string SoftmaxOp::commandKind() {
  return "";
}
void SoftmaxOp::commandAttributes(NamedAttrList &) {}

LogicalResult SoftmaxOp::decompose(OpBuilder &builder, llvm::SmallVectorImpl<Value> &results) {
  Location loc = getLoc();
  Value maximum = reduceRows(builder, loc, getX(), "max");
  Value exponentials = buildMap(builder, loc, {getX(), maximum}, [](OpBuilder &b, Location at, ValueRange v) {
    Scalars scalars(b, at);
    return scalars.exponential(scalars.subtract(v[0], v[1]));
  });
  Value sum = reduceRows(builder, loc, exponentials);
  results.push_back(buildMap(builder, loc, {exponentials, sum}, [](OpBuilder &b, Location at, ValueRange v) {
    return Scalars(b, at).divide(v[0], v[1]);
  }));
  return success();
}

} // namespace sluice
