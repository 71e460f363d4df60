// rope: rotary positions, half-split (pair i with i + h/2), as published Llama weights expect it.
#include "dialects/sluice/ops/Answers.h"

#include <cmath>

using namespace mlir;

namespace sluice {

LogicalResult RopeOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                       DictionaryAttr, OpaqueProperties, RegionRange,
                                       llvm::SmallVectorImpl<Type> &types) {
  if (failed(inferRank(location, "rope", "x", operands[0], 3, 3)))
    return failure();
  types.push_back(operands[0].getType());
  return success();
}

LogicalResult RopeOp::verify() {
  const Dim width = dimsOf(getX().getType()).back();
  const int64_t heads = static_cast<int64_t>(getHeads());
  if (heads < 1 || !width.isStatic() || width.size % (2 * heads) != 0)
    return ruleError(*this) << "x must be [batch, seq, heads * head_dim] with an even head_dim, found "
                            << shapeText(getX().getType()) << " for " << heads << " heads";
  if (!(getTheta().convertToDouble() > 0))
    return ruleError(*this) << "theta must be positive, found " << getTheta().convertToDouble();
  return success();
}

OpCounts RopeOp::count() {
  // Per pair four products and two sums; angles are tables.
  const Count pairs = elementCount(getX()) / 2;
  ClassCounts counts;
  counts.multiply = 4 * pairs;
  counts.add = 2 * pairs;
  return OpCounts::same(counts);
}

RecomputeCost RopeOp::recomputeCost() {
  return RecomputeCost::Cheap;
}

LogicalResult RopeOp::evaluate(Evaluation &evaluation) {
  const HostTensor &x = evaluation.operand(0);
  HostTensor &y = evaluation.result(0);
  const int64_t seq = x.shape[1], width = x.shape[2], headDim = width / static_cast<int64_t>(getHeads());
  const double theta = getTheta().convertToDouble(), direction = getInverse() ? -1.0 : 1.0;
  for (int64_t row = 0; row < x.rows(); ++row) {
    const double position = static_cast<double>(row % seq);
    for (int64_t head = 0; head < width; head += headDim) {
      for (int64_t i = 0; i < headDim / 2; ++i) {
        const double angle = direction * position *
                             std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(headDim));
        const int64_t first = row * width + head + i, second = first + headDim / 2;
        y[first] = x[first] * std::cos(angle) - x[second] * std::sin(angle);
        y[second] = x[second] * std::cos(angle) + x[first] * std::sin(angle);
      }
    }
  }
  return success();
}

LogicalResult RopeOp::buildAdjoint(AdjointBuilder &adjoint) {
  Value dy = adjoint.cotangent(0);
  if (dy && adjoint.needed(0))
    adjoint.setOperandCotangent(
        0, RopeOp::create(adjoint.builder, adjoint.loc, dy, getHeads(), getTheta(), !getInverse()));
  return success();
}

std::string RopeOp::commandKind() {
  return "rope";
}
void RopeOp::commandAttributes(NamedAttrList &attributes) {
  const int64_t heads = static_cast<int64_t>(getHeads());
  setInteger(attributes, getContext(), "heads", heads);
  setInteger(attributes, getContext(), "head_dim", tensorTypeOf(getX()).getDimSize(2) / heads);
  setNumber(attributes, getContext(), "theta", getTheta().convertToDouble());
  setInteger(attributes, getContext(), "inverse", getInverse());
}
LogicalResult RopeOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

} // namespace sluice
