// route: token choice. Probabilities, selection by keys, gates; its adjoint with ids as constants.
#include "dialects/sluice/AdjointUtils.h"
#include "dialects/sluice/ops/Place.h"
#include "dialects/sluice/ops/RoutingBuffer.h"

#include <cmath>

using namespace mlir;

namespace sluice {
namespace {

/// Better means: a larger key; on a tie the lower index; a NaN loses against every number.
bool isBetter(const double *keys, int64_t a, int64_t b) {
  bool aMissing = std::isnan(keys[a]), bMissing = std::isnan(keys[b]);
  if (aMissing != bMissing)
    return bMissing;
  if (!aMissing && keys[a] != keys[b])
    return keys[a] > keys[b];
  return a < b;
}

/// The best `count` of those keys that are `open`, best first.
std::vector<int64_t> bestOf(const double *keys, int64_t count, std::vector<bool> open) {
  std::vector<int64_t> taken;
  while (static_cast<int64_t>(taken.size()) < count) {
    int64_t best = -1;
    for (int64_t e = 0; e < static_cast<int64_t>(open.size()); ++e)
      if (open[e] && (best < 0 || isBetter(keys, e, best)))
        best = e;
    open[best] = false;
    taken.push_back(best);
  }
  return taken;
}

/// Which experts may be chosen: those of the `kept` groups whose score is best.
std::vector<bool> openExperts(const double *keys, int64_t experts, int64_t groups, int64_t kept,
                              bool sumOfBestTwo) {
  std::vector<bool> open(experts, groups == 1);
  if (groups == 1)
    return open;
  const int64_t size = experts / groups;
  std::vector<double> scores(groups);
  for (int64_t group = 0; group < groups; ++group) {
    const double *own = keys + group * size;
    for (int64_t member : bestOf(own, sumOfBestTwo ? 2 : 1, std::vector<bool>(size, true)))
      scores[group] += own[member];
  }
  for (int64_t group : bestOf(scores.data(), kept, std::vector<bool>(groups, true)))
    std::fill_n(open.begin() + group * size, size, true);
  return open;
}

/// Comparisons that find the best `chosen` of `size`: the j-th is a maximum over the size - j that are left.
Count choiceComparisons(Count size, Count chosen) {
  return chosen * (size - 1) - chosen * (chosen - 1) / 2;
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

/// Rules of a selection bias and of groups.
LogicalResult verifySelection(RouteOp op, int64_t experts, int64_t topK) {
  const auto groups = static_cast<int64_t>(op.getGroups()), kept = static_cast<int64_t>(op.getGroupsKept());
  if (op.getBias() && dimsOf(op.getBias().getType()) != llvm::SmallVector<Dim>{Dim(experts)})
    return emitPlacedError(op) << "bias must be [experts] = [" << experts << "], found "
                               << shapeText(op.getBias().getType());
  if (groups < 1 || experts % groups != 0)
    return emitPlacedError(op) << "groups must divide the " << experts << " experts, found " << groups;
  if (kept < 1 || kept > groups)
    return emitPlacedError(op) << "groups_kept must be between 1 and groups = " << groups << ", found "
                               << kept;
  if (!op.sumsGroups() && op.getGroupScore() != "maximum")
    return emitPlacedError(op) << "group_score must be \"maximum\" or \"sum_of_best_two\", found \""
                               << op.getGroupScore() << "\"";
  if (groups > 1 && op.sumsGroups() && experts / groups < 2)
    return emitPlacedError(op) << "group_score = \"sum_of_best_two\" needs at least 2 experts a group, found "
                               << experts << " experts in " << groups << " groups";
  if (topK > kept * (experts / groups))
    return emitPlacedError(op) << "top_k = " << topK << " is more than the " << kept * (experts / groups)
                               << " experts of the " << kept << " kept groups";
  return success();
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
  if (failed(verifyScore(*this, getScore())) || failed(verifySelection(*this, experts, topK)))
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
  const auto groups = static_cast<Count>(getGroups()), kept = static_cast<Count>(getGroupsKept());
  if (groups > 1) {
    counts.compare += tokens * groups * choiceComparisons(experts / groups, sumsGroups() ? 2 : 1);
    counts.compare += tokens * choiceComparisons(groups, kept);
    counts.add += sumsGroups() ? tokens * groups : 0;
  }
  counts.add += getBias() ? tokens * experts : 0;
  counts.compare += tokens * choiceComparisons(kept * (experts / groups), topK);
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
  const HostTensor *bias = getBias() ? &evaluation.operand(1) : nullptr;
  HostTensor &routing = evaluation.result(0), &gates = evaluation.result(1),
             &probabilities = evaluation.result(2);
  const double epsilon = getEpsilon().convertToDouble(), scale = getScale().convertToDouble();
  for (int64_t t = 0; t < tokens; ++t) {
    const double *row = &logits.values[t * experts];
    probabilitiesOf(row, experts, getScore() == "softmax", &probabilities.values[t * experts]);
    std::vector<double> keys(row, row + experts);
    if (comparesProbabilities())
      for (int64_t e = 0; e < experts; ++e)
        keys[e] = probabilities[t * experts + e] + (bias ? (*bias)[e] : 0.0);
    std::vector<bool> open = openExperts(keys.data(), experts, static_cast<int64_t>(getGroups()),
                                         static_cast<int64_t>(getGroupsKept()), sumsGroups());
    double sum = 0;
    for (auto [j, expert] : llvm::enumerate(bestOf(keys.data(), topK, std::move(open)))) {
      const int64_t slot = t * topK + static_cast<int64_t>(j);
      routing[slot] = static_cast<double>(expert);
      gates[slot] = probabilities[t * experts + expert];
      sum += gates[slot];
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
  if (!adjoint.cotangent(1) && !adjoint.cotangent(2))
    return success();
  // The bias only chooses, and ids are constants.
  if (getBias() && adjoint.needed(1))
    adjoint.setOperandCotangent(1, zerosLike(adjoint.builder, adjoint.loc, getBias().getType()));
  if (!adjoint.needed(0))
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
  appendInteger(attributes, *this, "groups", static_cast<int64_t>(getGroups()));
  appendInteger(attributes, *this, "groups_kept", static_cast<int64_t>(getGroupsKept()));
  appendInteger(attributes, *this, "group_score", sumsGroups() ? 1 : 0);
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
