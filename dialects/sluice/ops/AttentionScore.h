// What attention and its adjoint share: sizes, which positions see each other, and one score with its
// derivative.
#pragma once

#include "dialects/sluice/ops/Answers.h"

#include <cmath>

namespace sluice {

/// Sizes of an attention op or its gradient.
struct AttentionSizes {
  int64_t batch, seq, heads, kvHeads, headDim, valueDim, window;
  bool causal;

  template <typename Op> static AttentionSizes of(Op op) {
    auto shape = tensorTypeOf(op.getQ()).getShape();
    const int64_t heads = static_cast<int64_t>(op.getHeads()),
                  kvHeads = static_cast<int64_t>(op.getKvHeads());
    return {shape[0],
            shape[1],
            heads,
            kvHeads,
            shape[2] / heads,
            tensorTypeOf(op.getV()).getDimSize(2) / kvHeads,
            static_cast<int64_t>(op.getWindow()),
            op.getCausal()};
  }

  /// The first position that `s` reads, and one past the last.
  int64_t first(int64_t s) const { return window > 0 ? std::max<int64_t>(0, s - window + 1) : 0; }
  int64_t limit(int64_t s) const { return causal ? s + 1 : seq; }

  /// Scores of all heads, T*T pairs a head.
  Count fullScores() const { return static_cast<Count>(batch * heads) * static_cast<Count>(seq * seq); }
  /// Scores of all heads that are used: T(T+1)/2 pairs a head when causal, W(W+1)/2 + (T-W)W in a window W <
  /// T.
  Count usedScores() const {
    if (!causal)
      return fullScores();
    const Count t = static_cast<Count>(seq), w = window > 0 && window < seq ? static_cast<Count>(window) : t;
    return static_cast<Count>(batch * heads) * (w * (w + 1) / 2 + (t - w) * w);
  }
  Count rows() const { return static_cast<Count>(batch * heads * seq); }

  /// Offsets of position s, query head h: in q, in out, in the logsumexp; of its key/value head in k and in
  /// v.
  int64_t query(int64_t b, int64_t s, int64_t h) const { return ((b * seq + s) * heads + h) * headDim; }
  int64_t output(int64_t b, int64_t s, int64_t h) const { return ((b * seq + s) * heads + h) * valueDim; }
  int64_t row(int64_t b, int64_t s, int64_t h) const { return (b * heads + h) * seq + s; }
  int64_t key(int64_t b, int64_t s, int64_t h) const { return keyHead(b, s, h) * headDim; }
  int64_t value(int64_t b, int64_t s, int64_t h) const { return keyHead(b, s, h) * valueDim; }

private:
  int64_t keyHead(int64_t b, int64_t s, int64_t h) const {
    return (b * seq + s) * kvHeads + h / (heads / kvHeads);
  }
};

/// One score from the product <q[s], k[t]>, and its derivative with respect to that product.
struct AttentionScore {
  double scale, softcap;
  llvm::ArrayRef<double> slopes;

  template <typename Op> static AttentionScore of(Op op) {
    return {op.getScale().convertToDouble(), op.getSoftcap().convertToDouble(), op.getSlopes()};
  }
  double operator()(double product, int64_t head, int64_t s, int64_t t) const {
    double score = scale * product;
    if (softcap != 0)
      score = softcap * std::tanh(score / softcap);
    return slopes.empty() ? score : score + slopes[head] * static_cast<double>(t - s);
  }
  double derivative(double product) const {
    if (softcap == 0)
      return scale;
    const double t = std::tanh(scale * product / softcap);
    return scale * (1 - t * t);
  }
};

inline double dotProduct(const HostTensor &a, int64_t i, const HostTensor &b, int64_t j, int64_t size) {
  double sum = 0;
  for (int64_t d = 0; d < size; ++d)
    sum += a[i + d] * b[j + d];
  return sum;
}

/// The settings of the command, the same for both directions. What goes beyond plain attention is named only
/// where it is used, so that a device without it can refuse by name.
template <typename Op> void attentionAttributes(Op op, mlir::NamedAttrList &attributes) {
  mlir::MLIRContext *context = op.getContext();
  const AttentionSizes sizes = AttentionSizes::of(op);
  setInteger(attributes, context, "heads", sizes.heads);
  setInteger(attributes, context, "kv_heads", sizes.kvHeads);
  setInteger(attributes, context, "head_dim", sizes.headDim);
  setInteger(attributes, context, "causal", sizes.causal);
  setNumber(attributes, context, "scale", op.getScale().convertToDouble());
  if (sizes.valueDim != sizes.headDim)
    setInteger(attributes, context, "value_dim", sizes.valueDim);
  if (sizes.window > 0 && sizes.window < sizes.seq)
    setInteger(attributes, context, "window", sizes.window);
  if (op.getSoftcap().isNonZero())
    setNumber(attributes, context, "softcap", op.getSoftcap().convertToDouble());
  if (op.getSinks())
    setInteger(attributes, context, "sinks", 1);
  if (!op.getSlopes().empty())
    setText(attributes, context, "slopes", numbersText(op.getSlopes()));
}

} // namespace sluice
