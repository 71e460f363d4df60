// attention: softmax(score(q, k)) v, head by head; its adjoint is attention_gradient.
#include "dialects/sluice/ops/AttentionScore.h"

using namespace mlir;

namespace sluice {

LogicalResult AttentionOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                            ValueRange operands, DictionaryAttr attributes,
                                            OpaqueProperties properties, RegionRange regions,
                                            llvm::SmallVectorImpl<Type> &types) {
  Adaptor op(operands, attributes, properties, regions);
  if (failed(inferRank(location, "attention", "q", op.getQ(), 3, 3)) ||
      failed(inferRank(location, "attention", "v", op.getV(), 3, 3)))
    return failure();
  llvm::SmallVector<Dim> dims = dimsOf(op.getQ().getType());
  const int64_t heads = static_cast<int64_t>(op.getHeads()), kvHeads = static_cast<int64_t>(op.getKvHeads());
  const Dim values = dimsOf(op.getV().getType()).back();
  // Wrong sizes are reported by the verifier; here they must only not divide by zero.
  Dim width = dims.back();
  if (values.isStatic() && kvHeads > 0)
    width = Dim(values.size / kvHeads * heads);
  types.push_back(tensorOf({dims[0], dims[1], width}, elementTypeOf(op.getQ())));
  types.push_back(tensorOf({dims[0], Dim(heads), dims[1]}, elementTypeOf(op.getQ())));
  return success();
}

LogicalResult AttentionOp::verify() {
  const int64_t heads = static_cast<int64_t>(getHeads()), kvHeads = static_cast<int64_t>(getKvHeads());
  if (heads < 1 || kvHeads < 1 || heads % kvHeads != 0)
    return ruleError(*this) << "kv_heads must divide heads, found " << kvHeads << " and " << heads;
  llvm::SmallVector<Dim> dims = dimsOf(getQ().getType());
  if (!dims.back().isStatic() || dims.back().size % heads != 0)
    return ruleError(*this) << "q must be [batch, seq, heads * head_dim], found "
                            << shapeText(getQ().getType()) << " for " << heads << " heads";
  dims.back() = Dim(dims.back().size / heads * kvHeads);
  if (failed(requireShape(*this, "k", getK(), dims, "[batch, seq, kv_heads * head_dim]")))
    return failure();
  dims.back() = dimsOf(getV().getType()).back();
  if (!dims.back().isStatic() || dims.back().size % kvHeads != 0)
    return ruleError(*this) << "v must be [batch, seq, kv_heads * value_dim], found "
                            << shapeText(getV().getType()) << " for " << kvHeads << " heads";
  if (failed(requireShape(*this, "v", getV(), dims, "[batch, seq, kv_heads * value_dim]")))
    return failure();
  if (getSinks() && failed(requireShape(*this, "sinks", getSinks(), {Dim(heads)}, "[heads]")))
    return failure();
  const int64_t window = static_cast<int64_t>(getWindow());
  if (window < 0)
    return ruleError(*this) << "window must not be negative (0: none), found " << window;
  if (!getCausal() && (window > 0 || !getSlopes().empty()))
    return ruleError(*this) << "window and slopes look backwards only: they need causal = true";
  if (!(getSoftcap().convertToDouble() >= 0))
    return ruleError(*this) << "softcap must not be negative (0: none), found "
                            << getSoftcap().convertToDouble();
  if (!getSlopes().empty() && static_cast<int64_t>(getSlopes().size()) != heads)
    return ruleError(*this) << "slopes must hold one number a head (" << heads << "), found "
                            << getSlopes().size();
  return success();
}

OpCounts AttentionOp::count() {
  const AttentionSizes sizes = AttentionSizes::of(*this);
  auto reading = [&](Count scores) {
    // Two products a score; scale; softmax: maximum, subtraction, exp, sum, division; a row: log and its
    // addition. The cap: division, tanh, product. ALiBi: product and addition. A sink: one more term a row.
    ClassCounts counts;
    counts.contraction = 2 * scores * static_cast<Count>(sizes.headDim + sizes.valueDim);
    counts.multiply = scores;
    counts.compare = scores;
    counts.add = 2 * scores + sizes.rows();
    counts.transcendental = scores + sizes.rows();
    counts.divide = scores;
    if (getSoftcap().isNonZero())
      counts.divide += scores, counts.transcendental += scores, counts.multiply += scores;
    if (!getSlopes().empty())
      counts.multiply += scores, counts.add += scores;
    if (getSinks())
      counts.compare += sizes.rows(), counts.add += 2 * sizes.rows(), counts.transcendental += sizes.rows();
    return counts;
  };
  return {reading(sizes.usedScores()), reading(sizes.fullScores()), {}};
}

RecomputeCost AttentionOp::recomputeCost() {
  return RecomputeCost::Costly;
}

LogicalResult AttentionOp::evaluate(Evaluation &evaluation) {
  const HostTensor &q = evaluation.operand(0), &k = evaluation.operand(1), &v = evaluation.operand(2);
  const HostTensor *sinks = getSinks() ? &evaluation.operand(3) : nullptr;
  HostTensor &out = evaluation.result(0), &logsumexp = evaluation.result(1);
  const AttentionSizes z = AttentionSizes::of(*this);
  const AttentionScore score = AttentionScore::of(*this);
  std::vector<double> scores(static_cast<size_t>(z.seq));
  for (int64_t b = 0; b < z.batch; ++b) {
    for (int64_t h = 0; h < z.heads; ++h) {
      for (int64_t s = 0; s < z.seq; ++s) {
        const int64_t first = z.first(s), limit = z.limit(s);
        double maximum = sinks ? (*sinks)[h] : -INFINITY;
        for (int64_t t = first; t < limit; ++t) {
          scores[t] = score(dotProduct(q, z.query(b, s, h), k, z.key(b, t, h), z.headDim), h, s, t);
          maximum = std::max(maximum, scores[t]);
        }
        double sum = sinks ? std::exp((*sinks)[h] - maximum) : 0;
        for (int64_t t = first; t < limit; ++t)
          sum += std::exp(scores[t] - maximum);
        for (int64_t t = first; t < limit; ++t)
          for (int64_t d = 0; d < z.valueDim; ++d)
            out[z.output(b, s, h) + d] += std::exp(scores[t] - maximum) / sum * v[z.value(b, t, h) + d];
        logsumexp[z.row(b, s, h)] = maximum + std::log(sum);
      }
    }
  }
  return success();
}

llvm::ArrayRef<int64_t> AttentionOp::adjointReadsOperands() {
  static constexpr int64_t all[] = {0, 1, 2, 3};
  return llvm::ArrayRef<int64_t>(all).take_front(getSinks() ? 4 : 3);
}
llvm::ArrayRef<int64_t> AttentionOp::adjointReadsResults() {
  static constexpr int64_t all[] = {0, 1};
  return all;
}

LogicalResult AttentionOp::buildAdjoint(AdjointBuilder &adjoint) {
  if (adjoint.cotangent(1))
    return ruleError(*this) << "the logsumexp is for the adjoint only and has no cotangent";
  Value dout = adjoint.cotangent(0);
  if (!dout)
    return success();
  auto gradient = AttentionGradientOp::create(
      adjoint.builder, adjoint.loc, getQ(), getK(), getV(), getOut(), getLogsumexp(), dout, getSinks(),
      getHeads(), getKvHeads(), getCausal(), getScale(), getWindow(), getSoftcap(), getSlopes());
  for (unsigned operand = 0; operand < getNumOperands(); ++operand)
    if (adjoint.needed(operand))
      adjoint.setOperandCotangent(operand, gradient->getResult(operand));
  return success();
}

std::string AttentionOp::commandKind() {
  return "attention_forward";
}
void AttentionOp::commandAttributes(NamedAttrList &attributes) {
  attentionAttributes(*this, attributes);
}
LogicalResult AttentionOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

} // namespace sluice
