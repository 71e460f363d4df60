// router_z: mean of the squared logsumexp of router logits (Zoph et al. 2022, ST-MoE), and its gradient.
#include "dialects/sluice/ops/RoutingBuffer.h"

#include <cmath>

using namespace mlir;

namespace sluice {

LogicalResult RouterZOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands,
                                          DictionaryAttr, OpaqueProperties, RegionRange,
                                          llvm::SmallVectorImpl<Type> &inferred) {
  inferred.push_back(scalarLike(operands[0].getType()));
  return success();
}

LogicalResult RouterZOp::verify() {
  return verifyTargets(*this, getLogits(), getTargets());
}

OpCounts RouterZOp::count() {
  Count scores = elementsOf(getLogits()), tokens = elementsOf(getTargets());
  ClassCounts counts;
  counts.compare = scores;
  counts.add = 2 * scores + 2 * tokens; // difference and sum a score; + maximum and the total a token
  counts.transcendental = scores + tokens;
  counts.multiply = tokens;
  counts.divide = 1;
  return OpCounts::same(counts);
}

RecomputeCost RouterZOp::recomputeCost() {
  return RecomputeCost::Cheap;
}

LogicalResult RouterZOp::evaluate(Evaluation &evaluation) {
  const HostTensor &logits = evaluation.operand(0), &targets = evaluation.operand(1);
  const auto ignored = static_cast<int64_t>(getIgnoreIndex());
  const int64_t counted = countedTargets(targets, ignored), experts = logits.columns();
  if (counted == 0)
    return success();
  double sum = 0;
  for (int64_t t = 0; t < targets.size(); ++t) {
    if (static_cast<int64_t>(targets[t]) == ignored)
      continue;
    double z = logSumExp(&logits.values[t * experts], experts);
    sum += z * z;
  }
  evaluation.result(0)[0] = sum / static_cast<double>(counted);
  return success();
}

LogicalResult RouterZOp::buildAdjoint(AdjointBuilder &adjoint) {
  Value g = adjoint.cotangent(0);
  if (g && adjoint.needed(0))
    adjoint.setOperandCotangent(0, RouterZGradientOp::create(adjoint.builder, adjoint.loc, getLogits(),
                                                             getTargets(), g, getIgnoreIndexAttr()));
  return success();
}

std::string RouterZOp::commandKind() {
  return "router_z";
}
void RouterZOp::commandAttributes(NamedAttrList &attributes) {
  appendInteger(attributes, *this, "ignore_index", static_cast<int64_t>(getIgnoreIndex()));
}
LogicalResult RouterZOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

// ----- gradient
// ------------------------------------------------------------------------------------------------

LogicalResult RouterZGradientOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands,
                                                  DictionaryAttr, OpaqueProperties, RegionRange,
                                                  llvm::SmallVectorImpl<Type> &inferred) {
  inferred.push_back(operands[0].getType());
  return success();
}

LogicalResult RouterZGradientOp::verify() {
  if (failed(verifyTargets(*this, getLogits(), getTargets())))
    return failure();
  return verifyScalar(*this, getG(), "g");
}

OpCounts RouterZGradientOp::count() {
  Count scores = elementsOf(getLogits()), tokens = elementsOf(getTargets());
  ClassCounts counts;
  counts.compare = scores;
  counts.add = 2 * scores + tokens; // difference and sum a score; + maximum a token
  counts.transcendental = scores + tokens;
  counts.divide = scores + 1;
  counts.multiply = scores + 2 * tokens; // 2 g / n times z, then a score
  return OpCounts::same(counts);
}

RecomputeCost RouterZGradientOp::recomputeCost() {
  return RecomputeCost::Cheap;
}

LogicalResult RouterZGradientOp::evaluate(Evaluation &evaluation) {
  const HostTensor &logits = evaluation.operand(0), &targets = evaluation.operand(1);
  HostTensor &dlogits = evaluation.result(0);
  const auto ignored = static_cast<int64_t>(getIgnoreIndex());
  const int64_t counted = countedTargets(targets, ignored), experts = logits.columns();
  if (counted == 0)
    return success();
  const double factor = 2.0 * evaluation.operand(2)[0] / static_cast<double>(counted);
  for (int64_t t = 0; t < targets.size(); ++t) {
    if (static_cast<int64_t>(targets[t]) == ignored)
      continue;
    double z = logSumExp(&logits.values[t * experts], experts);
    for (int64_t e = 0; e < experts; ++e)
      dlogits[t * experts + e] = factor * z * std::exp(logits[t * experts + e] - z);
  }
  return success();
}

std::string RouterZGradientOp::commandKind() {
  return "router_z_gradient";
}
void RouterZGradientOp::commandAttributes(NamedAttrList &attributes) {
  appendInteger(attributes, *this, "ignore_index", static_cast<int64_t>(getIgnoreIndex()));
}
LogicalResult RouterZGradientOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

} // namespace sluice
