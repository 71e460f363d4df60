// attention and its adjoint: softmax(scale q k^T) v, head by head.
#include "dialects/sluice/ops/Answers.h"

#include <cmath>

using namespace mlir;

namespace sluice {
namespace {

/// Sizes shared by the forward and the adjoint.
struct Sizes {
  int64_t batch, seq, heads, kvHeads, headDim;

  template <typename Op> static Sizes of(Op op) {
    auto shape = tensorTypeOf(op.getQ()).getShape();
    const int64_t heads = static_cast<int64_t>(op.getHeads());
    return {shape[0], shape[1], heads, static_cast<int64_t>(op.getKvHeads()), shape[2] / heads};
  }
  /// Scores of all heads: T(T+1)/2 pairs a head when causal, else T*T.
  Count scores(bool causal) const {
    const Count t = static_cast<Count>(seq);
    return static_cast<Count>(batch * heads) * (causal ? t * (t + 1) / 2 : t * t);
  }
  Count rows() const { return static_cast<Count>(batch * heads * seq); }
  /// Offset of position s, query head h in q; of its key/value head in k and v.
  int64_t query(int64_t b, int64_t s, int64_t h) const { return ((b * seq + s) * heads + h) * headDim; }
  int64_t key(int64_t b, int64_t s, int64_t h) const {
    return ((b * seq + s) * kvHeads + h / (heads / kvHeads)) * headDim;
  }
};

double dot(const HostTensor &a, int64_t i, const HostTensor &b, int64_t j, int64_t size) {
  double sum = 0;
  for (int64_t d = 0; d < size; ++d)
    sum += a[i + d] * b[j + d];
  return sum;
}

template <typename Op> LogicalResult verifyHeads(Op op) {
  const int64_t heads = static_cast<int64_t>(op.getHeads()), kvHeads = static_cast<int64_t>(op.getKvHeads());
  if (heads < 1 || kvHeads < 1 || heads % kvHeads != 0)
    return ruleError(op) << "kv_heads must divide heads, found " << kvHeads << " and " << heads;
  llvm::SmallVector<Dim> dims = dimsOf(op.getQ().getType());
  if (!dims.back().isStatic() || dims.back().size % heads != 0)
    return ruleError(op) << "q must be [batch, seq, heads * head_dim], found "
                         << shapeText(op.getQ().getType()) << " for " << heads << " heads";
  dims.back() = Dim(dims.back().size / heads * kvHeads);
  if (failed(requireShape(op, "k", op.getK(), dims, "[batch, seq, kv_heads * head_dim]")))
    return failure();
  return requireShape(op, "v", op.getV(), dims, "[batch, seq, kv_heads * head_dim]");
}

template <typename Op> void headAttributes(Op op, NamedAttrList &attributes) {
  MLIRContext *context = op.getContext();
  const int64_t heads = static_cast<int64_t>(op.getHeads());
  setInteger(attributes, context, "heads", heads);
  setInteger(attributes, context, "kv_heads", static_cast<int64_t>(op.getKvHeads()));
  setInteger(attributes, context, "head_dim", tensorTypeOf(op.getQ()).getDimSize(2) / heads);
  setInteger(attributes, context, "causal", op.getCausal());
  setNumber(attributes, context, "scale", op.getScale().convertToDouble());
}

} // namespace

// ----- attention
// -------------------------------------------------------------------------------------------------

LogicalResult AttentionOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                            ValueRange operands, DictionaryAttr attributes,
                                            OpaqueProperties properties, RegionRange regions,
                                            llvm::SmallVectorImpl<Type> &types) {
  Adaptor op(operands, attributes, properties, regions);
  if (failed(inferRank(location, "attention", "q", op.getQ(), 3, 3)))
    return failure();
  llvm::SmallVector<Dim> dims = dimsOf(op.getQ().getType());
  types.push_back(tensorOf(dims, elementTypeOf(op.getQ())));
  types.push_back(
      tensorOf({dims[0], Dim(static_cast<int64_t>(op.getHeads())), dims[1]}, elementTypeOf(op.getQ())));
  return success();
}

LogicalResult AttentionOp::verify() {
  return verifyHeads(*this);
}

OpCounts AttentionOp::count() {
  const Sizes sizes = Sizes::of(*this);
  auto reading = [&](bool causal) {
    // Two products a score; scale; softmax: maximum, subtraction, exp, sum, division; a row: log and its
    // addition.
    const Count scores = sizes.scores(causal);
    ClassCounts counts;
    counts.contraction = 2 * 2 * scores * static_cast<Count>(sizes.headDim);
    counts.multiply = scores;
    counts.compare = scores;
    counts.add = 2 * scores + sizes.rows();
    counts.transcendental = scores + sizes.rows();
    counts.divide = scores;
    return counts;
  };
  return {reading(getCausal()), reading(false), {}};
}

RecomputeCost AttentionOp::recomputeCost() {
  return RecomputeCost::Costly;
}

LogicalResult AttentionOp::evaluate(Evaluation &evaluation) {
  const HostTensor &q = evaluation.operand(0), &k = evaluation.operand(1), &v = evaluation.operand(2);
  HostTensor &out = evaluation.result(0), &logsumexp = evaluation.result(1);
  const Sizes z = Sizes::of(*this);
  const double scale = getScale().convertToDouble();
  std::vector<double> scores(static_cast<size_t>(z.seq));
  for (int64_t b = 0; b < z.batch; ++b) {
    for (int64_t h = 0; h < z.heads; ++h) {
      for (int64_t s = 0; s < z.seq; ++s) {
        const int64_t visible = getCausal() ? s + 1 : z.seq;
        double maximum = -INFINITY, sum = 0;
        for (int64_t t = 0; t < visible; ++t) {
          scores[t] = scale * dot(q, z.query(b, s, h), k, z.key(b, t, h), z.headDim);
          maximum = std::max(maximum, scores[t]);
        }
        for (int64_t t = 0; t < visible; ++t)
          sum += std::exp(scores[t] - maximum);
        for (int64_t t = 0; t < visible; ++t)
          for (int64_t d = 0; d < z.headDim; ++d)
            out[z.query(b, s, h) + d] += std::exp(scores[t] - maximum) / sum * v[z.key(b, t, h) + d];
        logsumexp[(b * z.heads + h) * z.seq + s] = maximum + std::log(sum);
      }
    }
  }
  return success();
}

LogicalResult AttentionOp::buildAdjoint(AdjointBuilder &adjoint) {
  if (adjoint.cotangent(1))
    return ruleError(*this) << "the logsumexp is for the adjoint only and has no cotangent";
  Value dout = adjoint.cotangent(0);
  if (!dout)
    return success();
  auto gradient =
      AttentionGradientOp::create(adjoint.builder, adjoint.loc, getQ(), getK(), getV(), getOut(),
                                  getLogsumexp(), dout, getHeads(), getKvHeads(), getCausal(), getScale());
  for (unsigned operand = 0; operand < 3; ++operand)
    if (adjoint.needed(operand))
      adjoint.setOperandCotangent(operand, gradient->getResult(operand));
  return success();
}

std::string AttentionOp::commandKind() {
  return "attention_forward";
}
void AttentionOp::commandAttributes(NamedAttrList &attributes) {
  headAttributes(*this, attributes);
}
LogicalResult AttentionOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

// ----- attention_gradient
// ----------------------------------------------------------------------------------------

LogicalResult AttentionGradientOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                                    ValueRange operands, DictionaryAttr, OpaqueProperties,
                                                    RegionRange, llvm::SmallVectorImpl<Type> &types) {
  types.assign({operands[0].getType(), operands[1].getType(), operands[2].getType()});
  return success();
}

OpCounts AttentionGradientOp::count() {
  const Sizes sizes = Sizes::of(*this);
  const Count headDim = static_cast<Count>(sizes.headDim);
  auto reading = [&](bool causal) {
    // Products: dP = dout v^T, dv = P^T dout, dq = dS k, dk = dS^T q. A row: D = <dout, out>.
    // A score: dS = P (dP - D), and the scale.
    const Count scores = sizes.scores(causal);
    ClassCounts counts;
    counts.contraction = 4 * 2 * scores * headDim;
    counts.multiply = 2 * scores + sizes.rows() * headDim;
    counts.add = scores + sizes.rows() * headDim;
    return counts;
  };
  // Done again: the scores q k^T, scaled, minus the logsumexp, exp.
  const Count again = sizes.scores(getCausal());
  ClassCounts recompute;
  recompute.contraction = 2 * again * headDim;
  recompute.multiply = again;
  recompute.add = again;
  recompute.transcendental = again;
  return {reading(getCausal()), reading(false), recompute};
}

RecomputeCost AttentionGradientOp::recomputeCost() {
  return RecomputeCost::Costly;
}

LogicalResult AttentionGradientOp::evaluate(Evaluation &evaluation) {
  const HostTensor &q = evaluation.operand(0), &k = evaluation.operand(1), &v = evaluation.operand(2);
  const HostTensor &out = evaluation.operand(3), &logsumexp = evaluation.operand(4),
                   &dout = evaluation.operand(5);
  HostTensor &dq = evaluation.result(0), &dk = evaluation.result(1), &dv = evaluation.result(2);
  const Sizes z = Sizes::of(*this);
  const double scale = getScale().convertToDouble();
  for (int64_t b = 0; b < z.batch; ++b) {
    for (int64_t h = 0; h < z.heads; ++h) {
      for (int64_t s = 0; s < z.seq; ++s) {
        const int64_t row = z.query(b, s, h), visible = getCausal() ? s + 1 : z.seq;
        const double lse = logsumexp[(b * z.heads + h) * z.seq + s],
                     mean = dot(dout, row, out, row, z.headDim);
        for (int64_t t = 0; t < visible; ++t) {
          const int64_t column = z.key(b, t, h);
          const double p = std::exp(scale * dot(q, row, k, column, z.headDim) - lse);
          const double ds = scale * p * (dot(dout, row, v, column, z.headDim) - mean);
          for (int64_t d = 0; d < z.headDim; ++d) {
            dv[column + d] += p * dout[row + d];
            dq[row + d] += ds * k[column + d];
            dk[column + d] += ds * q[row + d];
          }
        }
      }
    }
  }
  return success();
}

std::string AttentionGradientOp::commandKind() {
  return "attention_backward";
}
void AttentionGradientOp::commandAttributes(NamedAttrList &attributes) {
  headAttributes(*this, attributes);
}
LogicalResult AttentionGradientOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

} // namespace sluice
