// routing_statistics: what a router did, summed over counted tokens, for the metrics.
#include "dialects/sluice/ops/RoutingBuffer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace mlir;

namespace sluice {

LogicalResult RoutingStatisticsOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                                    ValueRange operands, DictionaryAttr, OpaqueProperties,
                                                    RegionRange, llvm::SmallVectorImpl<Type> &inferred) {
  inferred.push_back(RankedTensorType::get({routingTypeOf(operands[2]).getExperts() + 4},
                                           cast<RankedTensorType>(operands[0].getType()).getElementType()));
  return success();
}

LogicalResult RoutingStatisticsOp::verify() {
  RoutingType routing = routingTypeOf(getRouting());
  if (failed(verifyPerToken(*this, getLogits(), routing, routing.getExperts(), "logits")) ||
      failed(verifyPerToken(*this, getProbabilities(), routing, routing.getExperts(), "probabilities")))
    return failure();
  return verifyTargets(*this, getLogits(), getTargets());
}

OpCounts RoutingStatisticsOp::count() {
  // Entropy: sum, quotient, log, product, sum a probability; logsumexp: compare, difference, exp, sum a
  // logit, and log and + maximum a token; largest probability: compare; then the totals.
  RoutingType routing = routingTypeOf(getRouting());
  auto tokens = static_cast<Count>(routing.tokenCount()), experts = static_cast<Count>(routing.getExperts());
  Count scores = tokens * experts;
  ClassCounts counts;
  counts.add = 4 * scores + 5 * tokens;
  counts.multiply = scores;
  counts.divide = scores;
  counts.transcendental = 2 * scores + tokens;
  counts.compare = 2 * scores;
  counts.index = static_cast<Count>(routing.rows());
  return OpCounts::same(counts);
}

RecomputeCost RoutingStatisticsOp::recomputeCost() {
  return RecomputeCost::Cheap;
}

LogicalResult RoutingStatisticsOp::evaluate(Evaluation &evaluation) {
  const HostTensor &logits = evaluation.operand(0), &probabilities = evaluation.operand(1);
  RoutingView routing(evaluation.operand(2), routingTypeOf(getRouting()));
  const HostTensor &targets = evaluation.operand(3);
  HostTensor &statistics = evaluation.result(0);
  const int64_t experts = routing.experts;
  for (int64_t t = 0; t < routing.tokens; ++t) {
    if (static_cast<int64_t>(targets[t]) == static_cast<int64_t>(getIgnoreIndex()))
      continue;
    for (int64_t j = 0; j < routing.topK; ++j)
      statistics[routing.expert(t * routing.topK + j)] += 1.0;
    const double *p = &probabilities.values[t * experts];
    const double sum = std::accumulate(p, p + experts, 0.0);
    double entropy = 0;
    for (int64_t e = 0; e < experts; ++e)
      entropy -= p[e] > 0 ? p[e] / sum * std::log(p[e] / sum) : 0.0;
    statistics[experts] += entropy;
    statistics[experts + 1] += logSumExp(&logits.values[t * experts], experts);
    statistics[experts + 2] += *std::max_element(p, p + experts);
    statistics[experts + 3] += 1.0;
  }
  return success();
}

std::string RoutingStatisticsOp::commandKind() {
  return "routing_statistics";
}
void RoutingStatisticsOp::commandAttributes(NamedAttrList &attributes) {
  appendInteger(attributes, *this, "top_k", routingTypeOf(getRouting()).getTopK());
  appendInteger(attributes, *this, "ignore_index", static_cast<int64_t>(getIgnoreIndex()));
}
LogicalResult RoutingStatisticsOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

} // namespace sluice
