// switch_balance: the load-balancing loss of Switch transformers in the form where a uniform router gives 1.
#include "dialects/sluice/ops/Place.h"
#include "dialects/sluice/ops/RoutingBuffer.h"

#include <cmath>
#include <numeric>

using namespace mlir;

namespace sluice {
namespace {

/// f_i: expert i's share of the counted tokens' assignments; all zero without a counted token.
std::vector<double> assignmentShares(const RoutingView &routing, const HostTensor &targets, int64_t ignored) {
  std::vector<double> shares(routing.experts, 0.0);
  const int64_t counted = countedTargets(targets, ignored);
  if (counted == 0)
    return shares;
  for (int64_t slot = 0; slot < routing.rows; ++slot)
    if (static_cast<int64_t>(targets[slot / routing.topK]) != ignored)
      shares[routing.expert(slot)] += 1.0;
  for (double &share : shares)
    share /= static_cast<double>(counted * routing.topK);
  return shares;
}

void balanceAttributes(Operation *op, RoutingType routing, bool normalize, int64_t ignored,
                       NamedAttrList &attributes) {
  appendInteger(attributes, op, "top_k", routing.getTopK());
  appendInteger(attributes, op, "normalize", normalize ? 1 : 0);
  appendInteger(attributes, op, "ignore_index", ignored);
}

} // namespace

LogicalResult SwitchBalanceOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands,
                                                DictionaryAttr, OpaqueProperties, RegionRange,
                                                llvm::SmallVectorImpl<Type> &inferred) {
  inferred.push_back(scalarLike(operands[0].getType()));
  return success();
}

LogicalResult SwitchBalanceOp::verify() {
  RoutingType routing = routingTypeOf(getRouting());
  if (failed(verifyPerToken(*this, getProbabilities(), routing, routing.getExperts(), "probabilities")))
    return failure();
  return verifyTargets(*this, getProbabilities(), getTargets());
}

OpCounts SwitchBalanceOp::count() {
  // Sums of probabilities, then E products; with `normalize` a sum and a quotient a probability before that.
  RoutingType routing = routingTypeOf(getRouting());
  auto tokens = static_cast<Count>(routing.tokenCount()), experts = static_cast<Count>(routing.getExperts());
  ClassCounts counts;
  counts.add = tokens * experts + experts - 1;
  counts.multiply = experts + 1;
  counts.divide = 2 * experts;
  counts.index = static_cast<Count>(routing.rows());
  if (getNormalize()) {
    counts.add += tokens * (experts - 1);
    counts.divide += tokens * experts;
  }
  return OpCounts::same(counts);
}

RecomputeCost SwitchBalanceOp::recomputeCost() {
  return RecomputeCost::Cheap;
}

LogicalResult SwitchBalanceOp::evaluate(Evaluation &evaluation) {
  const HostTensor &probabilities = evaluation.operand(0), &targets = evaluation.operand(2);
  RoutingView routing(evaluation.operand(1), routingTypeOf(getRouting()));
  const auto ignored = static_cast<int64_t>(getIgnoreIndex());
  const int64_t counted = countedTargets(targets, ignored), experts = routing.experts;
  if (counted == 0)
    return success();
  std::vector<double> shares = assignmentShares(routing, targets, ignored), means(experts, 0.0);
  for (int64_t t = 0; t < routing.tokens; ++t) {
    if (static_cast<int64_t>(targets[t]) == ignored)
      continue;
    const double *p = &probabilities.values[t * experts];
    const double sum = getNormalize() ? std::accumulate(p, p + experts, 0.0) : 1.0;
    for (int64_t e = 0; e < experts; ++e)
      means[e] += p[e] / sum;
  }
  double loss = 0;
  for (int64_t e = 0; e < experts; ++e)
    loss += shares[e] * means[e] / static_cast<double>(counted);
  evaluation.result(0)[0] = static_cast<double>(experts) * loss;
  return success();
}

LogicalResult SwitchBalanceOp::buildAdjoint(AdjointBuilder &adjoint) {
  Value g = adjoint.cotangent(0);
  if (g && adjoint.needed(0))
    adjoint.setOperandCotangent(
        0, SwitchBalanceGradientOp::create(adjoint.builder, adjoint.loc, getProbabilities(), getRouting(),
                                           getTargets(), g, getNormalizeAttr(), getIgnoreIndexAttr()));
  return success();
}

std::string SwitchBalanceOp::commandKind() {
  return "switch_balance";
}
void SwitchBalanceOp::commandAttributes(NamedAttrList &attributes) {
  balanceAttributes(*this, routingTypeOf(getRouting()), getNormalize(),
                    static_cast<int64_t>(getIgnoreIndex()), attributes);
}
LogicalResult SwitchBalanceOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

// ----- gradient
// ------------------------------------------------------------------------------------------------

LogicalResult SwitchBalanceGradientOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                                        ValueRange operands, DictionaryAttr, OpaqueProperties,
                                                        RegionRange, llvm::SmallVectorImpl<Type> &inferred) {
  inferred.push_back(operands[0].getType());
  return success();
}

LogicalResult SwitchBalanceGradientOp::verify() {
  RoutingType routing = routingTypeOf(getRouting());
  if (failed(verifyPerToken(*this, getProbabilities(), routing, routing.getExperts(), "probabilities")) ||
      failed(verifyTargets(*this, getProbabilities(), getTargets())))
    return failure();
  return verifyScalar(*this, getG(), "g");
}

OpCounts SwitchBalanceGradientOp::count() {
  RoutingType routing = routingTypeOf(getRouting());
  auto tokens = static_cast<Count>(routing.tokenCount()), experts = static_cast<Count>(routing.getExperts());
  ClassCounts counts;
  counts.multiply = 2 * experts;
  counts.divide = 2 * experts;
  counts.index = static_cast<Count>(routing.rows());
  if (getNormalize()) {
    // Sum of p, <f, p>, its quotient, then difference and quotient a probability.
    counts.add += tokens * (2 * (experts - 1) + experts);
    counts.multiply += tokens * experts;
    counts.divide += tokens * (1 + experts);
  }
  return OpCounts::same(counts);
}

RecomputeCost SwitchBalanceGradientOp::recomputeCost() {
  return RecomputeCost::Cheap;
}

LogicalResult SwitchBalanceGradientOp::evaluate(Evaluation &evaluation) {
  const HostTensor &probabilities = evaluation.operand(0), &targets = evaluation.operand(2);
  RoutingView routing(evaluation.operand(1), routingTypeOf(getRouting()));
  HostTensor &dprobabilities = evaluation.result(0);
  const auto ignored = static_cast<int64_t>(getIgnoreIndex());
  const int64_t counted = countedTargets(targets, ignored), experts = routing.experts;
  if (counted == 0)
    return success();
  std::vector<double> shares = assignmentShares(routing, targets, ignored);
  const double factor =
      evaluation.operand(3)[0] * static_cast<double>(experts) / static_cast<double>(counted);
  for (int64_t t = 0; t < routing.tokens; ++t) {
    if (static_cast<int64_t>(targets[t]) == ignored)
      continue;
    const double *p = &probabilities.values[t * experts];
    double sum = 1.0, mean = 0.0;
    if (getNormalize()) {
      sum = std::accumulate(p, p + experts, 0.0);
      mean = std::inner_product(p, p + experts, shares.begin(), 0.0) / sum;
    }
    for (int64_t e = 0; e < experts; ++e)
      dprobabilities[t * experts + e] = factor * (shares[e] - mean) / sum;
  }
  return success();
}

std::string SwitchBalanceGradientOp::commandKind() {
  return "switch_balance_gradient";
}
void SwitchBalanceGradientOp::commandAttributes(NamedAttrList &attributes) {
  balanceAttributes(*this, routingTypeOf(getRouting()), getNormalize(),
                    static_cast<int64_t>(getIgnoreIndex()), attributes);
}
LogicalResult SwitchBalanceGradientOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

} // namespace sluice
