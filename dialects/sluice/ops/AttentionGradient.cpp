// attention_gradient: the adjoint of attention from its output and logsumexp; scores are computed again.
#include "dialects/sluice/ops/AttentionScore.h"

using namespace mlir;

namespace sluice {

LogicalResult AttentionGradientOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                                    ValueRange operands, DictionaryAttr, OpaqueProperties,
                                                    RegionRange, llvm::SmallVectorImpl<Type> &types) {
  types.assign({operands[0].getType(), operands[1].getType(), operands[2].getType()});
  if (operands.size() > 6)
    types.push_back(operands[6].getType());
  return success();
}

OpCounts AttentionGradientOp::count() {
  const AttentionSizes sizes = AttentionSizes::of(*this);
  const Count headDim = static_cast<Count>(sizes.headDim), valueDim = static_cast<Count>(sizes.valueDim);
  const bool capped = getSoftcap().isNonZero(), sloped = !getSlopes().empty();
  auto reading = [&](Count scores) {
    // Products: dP = dout v^T, dv = P^T dout, dq = dS k, dk = dS^T q. A row: D = <dout, out>.
    // A score: dS = P (dP - D), and the scale. The cap's derivative 1 - (score / cap)^2: division, square,
    // subtraction, and its product with dS. A sink: exp(sink - logsumexp) D, summed over rows.
    ClassCounts counts;
    counts.contraction = 2 * 2 * scores * (headDim + valueDim);
    counts.multiply = 2 * scores + sizes.rows() * valueDim;
    counts.add = scores + sizes.rows() * valueDim;
    if (capped)
      counts.divide += scores, counts.multiply += 2 * scores, counts.add += scores;
    if (getSinks()) {
      counts.add += 2 * sizes.rows(), counts.multiply += sizes.rows();
      counts.transcendental += sizes.rows();
    }
    return counts;
  };
  // Done again: the scores q k^T, scaled (capped, sloped), minus the logsumexp, exp.
  const Count again = sizes.usedScores();
  ClassCounts recompute;
  recompute.contraction = 2 * again * headDim;
  recompute.multiply = again;
  recompute.add = again;
  recompute.transcendental = again;
  if (capped)
    recompute.divide += again, recompute.transcendental += again, recompute.multiply += again;
  if (sloped)
    recompute.multiply += again, recompute.add += again;
  return {reading(again), reading(sizes.fullScores()), recompute};
}

RecomputeCost AttentionGradientOp::recomputeCost() {
  return RecomputeCost::Costly;
}

LogicalResult AttentionGradientOp::evaluate(Evaluation &evaluation) {
  const HostTensor &q = evaluation.operand(0), &k = evaluation.operand(1), &v = evaluation.operand(2);
  const HostTensor &out = evaluation.operand(3), &logsumexp = evaluation.operand(4),
                   &dout = evaluation.operand(5);
  HostTensor &dq = evaluation.result(0), &dk = evaluation.result(1), &dv = evaluation.result(2);
  const AttentionSizes z = AttentionSizes::of(*this);
  const AttentionScore score = AttentionScore::of(*this);
  for (int64_t b = 0; b < z.batch; ++b) {
    for (int64_t h = 0; h < z.heads; ++h) {
      for (int64_t s = 0; s < z.seq; ++s) {
        const int64_t row = z.query(b, s, h), at = z.output(b, s, h);
        const double lse = logsumexp[z.row(b, s, h)], mean = dotProduct(dout, at, out, at, z.valueDim);
        for (int64_t t = z.first(s); t < z.limit(s); ++t) {
          const int64_t key = z.key(b, t, h), value = z.value(b, t, h);
          const double product = dotProduct(q, row, k, key, z.headDim);
          const double p = std::exp(score(product, h, s, t) - lse);
          const double ds =
              score.derivative(product) * p * (dotProduct(dout, at, v, value, z.valueDim) - mean);
          for (int64_t d = 0; d < z.valueDim; ++d)
            dv[value + d] += p * dout[at + d];
          for (int64_t d = 0; d < z.headDim; ++d) {
            dq[row + d] += ds * k[key + d];
            dk[key + d] += ds * q[row + d];
          }
        }
        // The sink has no value, so its probability only takes from the others.
        if (getSinks())
          evaluation.result(3)[h] -= std::exp(evaluation.operand(6)[h] - lse) * mean;
      }
    }
  }
  return success();
}

std::string AttentionGradientOp::commandKind() {
  return "attention_backward";
}
void AttentionGradientOp::commandAttributes(NamedAttrList &attributes) {
  attentionAttributes(*this, attributes);
}
LogicalResult AttentionGradientOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

} // namespace sluice
