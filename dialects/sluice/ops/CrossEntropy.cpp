// cross_entropy, its gradient, and the number of counted targets.
#include "dialects/sluice/ops/Place.h"
#include "dialects/sluice/ops/RoutingBuffer.h"

#include <cmath>

using namespace mlir;

namespace sluice {
namespace {

/// Targets are class numbers or `ignoreIndex`; anything else is an error at the op.
LogicalResult checkTargets(Operation *op, const HostTensor &targets, int64_t classes, int64_t ignoreIndex) {
  for (int64_t t = 0; t < targets.size(); ++t) {
    auto target = static_cast<int64_t>(targets[t]);
    if (target != ignoreIndex && (target < 0 || target >= classes))
      return emitPlacedError(op) << "target " << target << " of token " << t << " is not in 0 .. "
                                 << classes - 1 << " and not ignore_index " << ignoreIndex;
  }
  return success();
}

} // namespace

LogicalResult CrossEntropyOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands,
                                               DictionaryAttr, OpaqueProperties, RegionRange,
                                               llvm::SmallVectorImpl<Type> &inferred) {
  inferred.push_back(scalarLike(operands[0].getType()));
  return success();
}

LogicalResult CrossEntropyOp::verify() {
  return verifyTargets(*this, getLogits(), getTargets());
}

OpCounts CrossEntropyOp::count() {
  // Maximum, difference, exp and sum a score; log, + maximum, - target's logit and the total a token. Ignored
  // targets are data, so every token counts.
  Count scores = elementsOf(getLogits()), tokens = elementsOf(getTargets());
  ClassCounts counts;
  counts.compare = scores;
  counts.add = 2 * scores + 3 * tokens;
  counts.transcendental = scores + tokens;
  return OpCounts::same(counts);
}

RecomputeCost CrossEntropyOp::recomputeCost() {
  return RecomputeCost::Cheap;
}

LogicalResult CrossEntropyOp::evaluate(Evaluation &evaluation) {
  const HostTensor &logits = evaluation.operand(0), &targets = evaluation.operand(1);
  const auto ignored = static_cast<int64_t>(getIgnoreIndex());
  const int64_t classes = logits.columns();
  if (failed(checkTargets(*this, targets, classes, ignored)))
    return failure();
  double sum = 0;
  for (int64_t t = 0; t < targets.size(); ++t) {
    auto target = static_cast<int64_t>(targets[t]);
    if (target != ignored)
      sum += logSumExp(&logits.values[t * classes], classes) - logits[t * classes + target];
  }
  evaluation.result(0)[0] = sum;
  return success();
}

LogicalResult CrossEntropyOp::buildAdjoint(AdjointBuilder &adjoint) {
  Value g = adjoint.cotangent(0);
  if (g && adjoint.needed(0))
    adjoint.setOperandCotangent(0, CrossEntropyGradientOp::create(adjoint.builder, adjoint.loc, getLogits(),
                                                                  getTargets(), g, getIgnoreIndexAttr()));
  return success();
}

std::string CrossEntropyOp::commandKind() {
  return "cross_entropy";
}
void CrossEntropyOp::commandAttributes(NamedAttrList &attributes) {
  appendInteger(attributes, *this, "ignore_index", static_cast<int64_t>(getIgnoreIndex()));
}
LogicalResult CrossEntropyOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

// ----- gradient
// ------------------------------------------------------------------------------------------------

LogicalResult CrossEntropyGradientOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                                       ValueRange operands, DictionaryAttr, OpaqueProperties,
                                                       RegionRange, llvm::SmallVectorImpl<Type> &inferred) {
  inferred.push_back(operands[0].getType());
  return success();
}

LogicalResult CrossEntropyGradientOp::verify() {
  if (failed(verifyTargets(*this, getLogits(), getTargets())))
    return failure();
  return verifyScalar(*this, getG(), "g");
}

OpCounts CrossEntropyGradientOp::count() {
  // Softmax (five a score), minus one at the target, times g.
  Count scores = elementsOf(getLogits()), tokens = elementsOf(getTargets());
  ClassCounts counts;
  counts.compare = scores;
  counts.add = 2 * scores + tokens;
  counts.transcendental = scores;
  counts.divide = scores;
  counts.multiply = scores;
  return OpCounts::same(counts);
}

RecomputeCost CrossEntropyGradientOp::recomputeCost() {
  return RecomputeCost::Cheap;
}

LogicalResult CrossEntropyGradientOp::evaluate(Evaluation &evaluation) {
  const HostTensor &logits = evaluation.operand(0), &targets = evaluation.operand(1);
  const double g = evaluation.operand(2)[0];
  HostTensor &dlogits = evaluation.result(0);
  const auto ignored = static_cast<int64_t>(getIgnoreIndex());
  const int64_t classes = logits.columns();
  if (failed(checkTargets(*this, targets, classes, ignored)))
    return failure();
  for (int64_t t = 0; t < targets.size(); ++t) {
    auto target = static_cast<int64_t>(targets[t]);
    if (target == ignored)
      continue;
    double shift = logSumExp(&logits.values[t * classes], classes);
    // An infinite loss gives NaN; a finite one nothing.
    const double loss = shift - logits[t * classes + target], factor = g + (loss - loss);
    for (int64_t c = 0; c < classes; ++c)
      dlogits[t * classes + c] =
          factor * (std::exp(logits[t * classes + c] - shift) - (c == target ? 1.0 : 0.0));
  }
  return success();
}

std::string CrossEntropyGradientOp::commandKind() {
  return "cross_entropy_gradient";
}
void CrossEntropyGradientOp::commandAttributes(NamedAttrList &attributes) {
  appendInteger(attributes, *this, "ignore_index", static_cast<int64_t>(getIgnoreIndex()));
}
LogicalResult CrossEntropyGradientOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

// ----- counted targets
// -----------------------------------------------------------------------------------------

LogicalResult CountTargetsOp::inferReturnTypes(MLIRContext *context, std::optional<Location>, ValueRange,
                                               DictionaryAttr, OpaqueProperties, RegionRange,
                                               llvm::SmallVectorImpl<Type> &inferred) {
  inferred.push_back(RankedTensorType::get({}, Float32Type::get(context)));
  return success();
}

OpCounts CountTargetsOp::count() {
  ClassCounts counts;
  counts.compare = elementsOf(getTargets());
  counts.add = elementsOf(getTargets());
  return OpCounts::same(counts);
}

RecomputeCost CountTargetsOp::recomputeCost() {
  return RecomputeCost::Cheap;
}

LogicalResult CountTargetsOp::evaluate(Evaluation &evaluation) {
  evaluation.result(0)[0] =
      static_cast<double>(countedTargets(evaluation.operand(0), static_cast<int64_t>(getIgnoreIndex())));
  return success();
}

std::string CountTargetsOp::commandKind() {
  return "count_targets";
}
void CountTargetsOp::commandAttributes(NamedAttrList &attributes) {
  appendInteger(attributes, *this, "ignore_index", static_cast<int64_t>(getIgnoreIndex()));
}
LogicalResult CountTargetsOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

} // namespace sluice
