// route: token choice. Probabilities, selection by logits, gates; its adjoint with ids as constants.
#include "dialects/sluice/ops/Place.h"
#include "dialects/sluice/ops/RoutingBuffer.h"

#include <cmath>

using namespace mlir;

namespace sluice {
namespace {

/// Better means: a larger logit; on a tie the lower index; a NaN loses against every number.
bool isBetter(const double *logits, int64_t a, int64_t b) {
  bool aMissing = std::isnan(logits[a]), bMissing = std::isnan(logits[b]);
  if (aMissing != bMissing)
    return bMissing;
  if (!aMissing && logits[a] != logits[b])
    return logits[a] > logits[b];
  return a < b;
}

void probabilitiesOf(const double *logits, int64_t experts, bool softmax, double *probabilities) {
  double shift = softmax ? logSumExp(logits, experts) : 0.0;
  for (int64_t e = 0; e < experts; ++e)
    probabilities[e] = softmax ? std::exp(logits[e] - shift) : 1.0 / (1.0 + std::exp(-logits[e]));
}

/// Softmax: maximum, difference, exp, sum, quotient a score; sigmoid: exp, sum, quotient (accounting 1.6).
ClassCounts scoreCounts(Count tokens, Count experts, bool softmax) {
  Count scores = tokens * experts;
  ClassCounts counts;
  counts.transcendental = scores;
  counts.divide = scores;
  counts.add = softmax ? 2 * scores : scores;
  counts.compare = softmax ? scores : 0;
  return counts;
}

void routeAttributes(Operation *op, RoutingType routing, llvm::StringRef score, bool renormalize,
                     double epsilon, double scale, NamedAttrList &attributes) {
  appendInteger(attributes, op, "top_k", routing.getTopK());
  appendInteger(attributes, op, "score", score == "sigmoid" ? 1 : 0);
  appendInteger(attributes, op, "renormalize", renormalize ? 1 : 0);
  appendFloat(attributes, op, "epsilon", epsilon);
  appendFloat(attributes, op, "scale", scale);
}

LogicalResult verifyScore(Operation *op, llvm::StringRef score) {
  if (score == "softmax" || score == "sigmoid")
    return success();
  return emitPlacedError(op) << "score must be \"softmax\" or \"sigmoid\", found \"" << score << "\"";
}

} // namespace

LogicalResult RouteOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location,
                                        ValueRange operands, DictionaryAttr attributes,
                                        OpaqueProperties properties, RegionRange regions,
                                        llvm::SmallVectorImpl<Type> &inferred) {
  Adaptor adaptor(operands, attributes, properties, regions);
  Type logits = adaptor.getLogits().getType();
  llvm::SmallVector<Dim> dims = dimsOf(logits);
  if (dims.empty() || !dims.back().isStatic())
    return emitOptionalError(
        location, "'sluice.route' op needs logits [..., experts] with a known number of experts, found ",
        shapeText(logits));
  auto topK = static_cast<int64_t>(adaptor.getTopK());
  Dim tokens = leadingProduct(logits);
  inferred.push_back(RoutingType::get(
      context, dims.back().size, topK,
      StringAttr::get(context, tokens.isStatic() ? std::to_string(tokens.size) : tokens.name)));
  inferred.push_back(withLastSize(logits, Dim(topK)));
  inferred.push_back(logits);
  return success();
}

LogicalResult RouteOp::verify() {
  auto topK = static_cast<int64_t>(getTopK());
  int64_t experts = routingTypeOf(getRouting()).getExperts();
  if (topK < 1 || topK > experts)
    return emitPlacedError(*this) << "top_k must be between 1 and the number of experts, found top_k = "
                                  << topK << " of " << experts << " experts";
  if (failed(verifyScore(*this, getScore())))
    return failure();
  if (topK == 1 && getRenormalize() && !getAllowConstantGate())
    return emitPlacedError(*this)
           << "top_k = 1 with renormalize makes every gate the constant " << getScale().convertToDouble()
           << ", so cross-entropy gives the router no gradient; use renormalize = false, or "
              "say allow_constant_gate = true if that is the study";
  return success();
}

OpCounts RouteOp::count() {
  RoutingType type = routingTypeOf(getRouting());
  auto tokens = static_cast<Count>(type.tokenCount()), experts = static_cast<Count>(type.getExperts());
  auto topK = static_cast<Count>(type.getTopK());
  ClassCounts counts = scoreCounts(tokens, experts, getScore() == "softmax");
  // The j-th choice is a maximum over the experts - j that are left.
  counts.compare += tokens * (topK * (experts - 1) - topK * (topK - 1) / 2);
  if (getRenormalize()) {
    counts.add += tokens * (topK - 1 + (getEpsilon().isZero() ? 0 : 1));
    counts.divide += tokens * topK;
  }
  if (!getScale().isExactlyValue(1.0))
    counts.multiply += tokens * topK;
  counts.index += 3 * tokens * topK; // count, place, invert: once a slot
  return OpCounts::same(counts);
}

RecomputeCost RouteOp::recomputeCost() {
  return RecomputeCost::Never;
}

LogicalResult RouteOp::evaluate(Evaluation &evaluation) {
  RoutingType type = routingTypeOf(getRouting());
  const int64_t tokens = type.tokenCount(), experts = type.getExperts(), topK = type.getTopK();
  const HostTensor &logits = evaluation.operand(0);
  HostTensor &routing = evaluation.result(0), &gates = evaluation.result(1),
             &probabilities = evaluation.result(2);
  const double epsilon = getEpsilon().convertToDouble(), scale = getScale().convertToDouble();
  for (int64_t t = 0; t < tokens; ++t) {
    const double *row = &logits.values[t * experts];
    probabilitiesOf(row, experts, getScore() == "softmax", &probabilities.values[t * experts]);
    std::vector<bool> taken(experts, false);
    double sum = 0;
    for (int64_t j = 0; j < topK; ++j) {
      int64_t best = -1;
      for (int64_t e = 0; e < experts; ++e)
        if (!taken[e] && (best < 0 || isBetter(row, e, best)))
          best = e;
      taken[best] = true;
      routing[t * topK + j] = static_cast<double>(best);
      gates[t * topK + j] = probabilities[t * experts + best];
      sum += gates[t * topK + j];
    }
    for (int64_t j = 0; j < topK; ++j) {
      double &gate = gates[t * topK + j];
      gate = scale * (getRenormalize() ? gate / (sum + epsilon) : gate);
    }
  }
  groupRows(routing, type);
  return success();
}

LogicalResult RouteOp::buildAdjoint(AdjointBuilder &adjoint) {
  if (!adjoint.needed(0) || (!adjoint.cotangent(1) && !adjoint.cotangent(2)))
    return success();
  Value dgates = cotangentOrZeros(adjoint, 1, getGates());
  Value dprobabilities = cotangentOrZeros(adjoint, 2, getProbabilities());
  adjoint.setOperandCotangent(0, RouteGradientOp::create(adjoint.builder, adjoint.loc, getProbabilities(),
                                                         getGates(), getRouting(), dgates, dprobabilities,
                                                         getScoreAttr(), getRenormalizeAttr(),
                                                         getEpsilonAttr(), getScaleAttr()));
  return success();
}

std::string RouteOp::commandKind() {
  return "route";
}
void RouteOp::commandAttributes(NamedAttrList &attributes) {
  routeAttributes(*this, routingTypeOf(getRouting()), getScore(), getRenormalize(),
                  getEpsilon().convertToDouble(), getScale().convertToDouble(), attributes);
}
LogicalResult RouteOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

// ----- the adjoint
// ---------------------------------------------------------------------------------------------

LogicalResult RouteGradientOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands,
                                                DictionaryAttr, OpaqueProperties, RegionRange,
                                                llvm::SmallVectorImpl<Type> &inferred) {
  inferred.push_back(operands[0].getType());
  return success();
}

LogicalResult RouteGradientOp::verify() {
  RoutingType routing = routingTypeOf(getRouting());
  const int64_t experts = routing.getExperts(), topK = routing.getTopK();
  if (failed(verifyPerToken(*this, getProbabilities(), routing, experts, "probabilities")) ||
      failed(verifyPerToken(*this, getGates(), routing, topK, "gates")) ||
      failed(verifyPerToken(*this, getDgates(), routing, topK, "dgates")) ||
      failed(verifyPerToken(*this, getDprobabilities(), routing, experts, "dprobabilities")))
    return failure();
  return verifyScore(*this, getScore());
}

OpCounts RouteGradientOp::count() {
  RoutingType type = routingTypeOf(getRouting());
  auto tokens = static_cast<Count>(type.tokenCount()), experts = static_cast<Count>(type.getExperts());
  auto topK = static_cast<Count>(type.getTopK());
  ClassCounts counts;
  if (getRenormalize()) {
    // The sum (+ epsilon), <dgates, q> and its quotient twice, then difference and quotient a gate.
    counts.add += tokens * (topK - 1 + (getEpsilon().isZero() ? 0 : 1) + (topK - 1) + topK);
    counts.multiply += tokens * topK;
    counts.divide += tokens * (1 + topK);
  }
  if (!getScale().isExactlyValue(1.0))
    counts.multiply += tokens * topK;
  counts.add += tokens * topK; // into the probabilities' cotangent
  if (getScore() == "softmax") {
    counts.multiply += 2 * tokens * experts;
    counts.add += tokens * (experts - 1) + tokens * experts;
  } else {
    counts.multiply += 2 * tokens * experts;
    counts.add += tokens * experts;
  }
  return OpCounts::same(counts);
}

RecomputeCost RouteGradientOp::recomputeCost() {
  return RecomputeCost::Cheap;
}

LogicalResult RouteGradientOp::evaluate(Evaluation &evaluation) {
  RoutingType type = routingTypeOf(getRouting());
  const int64_t tokens = type.tokenCount(), experts = type.getExperts(), topK = type.getTopK();
  const HostTensor &probabilities = evaluation.operand(0);
  RoutingView routing(evaluation.operand(2), type);
  const HostTensor &dgates = evaluation.operand(3), &dprobabilities = evaluation.operand(4);
  HostTensor &dlogits = evaluation.result(0);
  const double epsilon = getEpsilon().convertToDouble(), scale = getScale().convertToDouble();
  std::vector<double> dp(experts);
  for (int64_t t = 0; t < tokens; ++t) {
    const double *p = &probabilities.values[t * experts];
    std::copy_n(&dprobabilities.values[t * experts], experts, dp.begin());
    // gate_j = scale q_j / (sum q + epsilon), so dq_j = scale (dgate_j - <dgate, q> / (sum + epsilon)) / (sum
    // + epsilon).
    double sum = epsilon, inner = 0;
    for (int64_t j = 0; j < topK; ++j) {
      double q = p[routing.expert(t * topK + j)];
      sum += q;
      inner += dgates[t * topK + j] * q;
    }
    for (int64_t j = 0; j < topK; ++j) {
      double dgate = dgates[t * topK + j];
      dp[routing.expert(t * topK + j)] += scale * (getRenormalize() ? (dgate - inner / sum) / sum : dgate);
    }
    double mean = 0;
    for (int64_t e = 0; e < experts; ++e)
      mean += p[e] * dp[e];
    for (int64_t e = 0; e < experts; ++e)
      dlogits[t * experts + e] =
          getScore() == "softmax" ? p[e] * (dp[e] - mean) : p[e] * (1.0 - p[e]) * dp[e];
  }
  return success();
}

std::string RouteGradientOp::commandKind() {
  return "route_gradient";
}
void RouteGradientOp::commandAttributes(NamedAttrList &attributes) {
  routeAttributes(*this, routingTypeOf(getRouting()), getScore(), getRenormalize(),
                  getEpsilon().convertToDouble(), getScale().convertToDouble(), attributes);
}
LogicalResult RouteGradientOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

} // namespace sluice
