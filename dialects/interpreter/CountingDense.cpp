// linear, norms, rotary positions, attention, activations with counting scalars.
#include "dialects/interpreter/CountingFamilies.h"
#include "dialects/sluice/ops/AttentionScore.h"

#include <numbers>

using namespace mlir;

namespace sluice::counting {

void softmaxRow(const double *row, int64_t size, double *target) {
  std::vector<Scalar> exponentials;
  Scalar sum;
  Scalar largest = -INFINITY;
  for (int64_t i = 0; i < size; ++i)
    largest = maximum(largest, row[i]);
  for (int64_t i = 0; i < size; ++i)
    sum += exponentials.emplace_back(exp(row[i] - largest));
  for (int64_t i = 0; i < size; ++i)
    target[i] = (exponentials[i] / sum).value;
}

namespace {

Scalar sigmoid(Scalar x) {
  return 1.0 / (1.0 + exp(-x));
}

void runLinear(LinearOp op, Frame &frame) {
  const HostTensor &x = frame.in(0), &weight = frame.in(1);
  const HostTensor *mask = op.getMask() ? &frame.in(op.getBias() ? 3 : 2) : nullptr;
  HostTensor &y = frame.out();
  const int64_t in = x.columns(), out = weight.shape[0];
  for (int64_t row = 0; row < x.rows(); ++row)
    for (int64_t o = 0; o < out; ++o) {
      double &sum = y[row * out + o];
      for (int64_t i = 0; i < in; ++i)
        if (!mask || (*mask)[o * in + i] != 0)
          multiplyAdd(sum, x[row * in + i], weight[o * in + i]);
      if (op.getBias())
        sum = (Scalar(sum) + frame.in(2)[o]).value;
    }
}

void runRmsNorm(RmsNormOp op, Frame &frame) {
  const HostTensor &x = frame.in(0), &gain = frame.in(1);
  const int64_t width = x.columns();
  for (int64_t row = 0; row < x.rows(); ++row) {
    Scalar sum;
    for (int64_t j = 0; j < width; ++j) {
      const Scalar square = Scalar(x[row * width + j]) * x[row * width + j];
      sum = width == 1 ? square : sum + square; // one element is no sum
    }
    const Scalar r = reciprocalSqrt(sum / static_cast<double>(width) + op.getEpsilon().convertToDouble());
    frame.out(1)[row] = r.value;
    for (int64_t j = 0; j < width; ++j)
      frame.out()[row * width + j] = (x[row * width + j] * r * gain[j]).value;
  }
}

void runRope(RopeOp op, Frame &frame) {
  const HostTensor &x = frame.in(0);
  const int64_t seq = x.shape[1], width = x.shape[2], headDim = width / static_cast<int64_t>(op.getHeads());
  const int64_t offset = static_cast<int64_t>(op.getOffset()),
                stated = static_cast<int64_t>(op.getRotaryDim());
  const int64_t pairs = (stated ? stated : headDim - offset) / 2;
  const double theta = op.getTheta().convertToDouble(), factor = op.getFactor().convertToDouble();
  frame.out().values = x.values;
  for (int64_t row = 0; row < x.rows(); ++row)
    for (int64_t head = 0; head < width; head += headDim)
      for (int64_t i = 0; i < pairs; ++i) {
        // Angles are tables: nothing is counted for them.
        const double frequency = op.getFrequencies().empty()
                                     ? std::pow(theta, -static_cast<double>(i) / static_cast<double>(pairs))
                                     : op.getFrequencies()[i];
        const double angle = static_cast<double>(row % seq) * frequency;
        const Scalar cosine = factor * std::cos(angle),
                     sine = (op.getInverse() ? -factor : factor) * std::sin(angle);
        const int64_t first = row * width + head + offset + (op.getInterleaved() ? 2 * i : i);
        const int64_t second = first + (op.getInterleaved() ? 1 : pairs);
        frame.out()[first] = (cosine * x[first] - sine * x[second]).value;
        frame.out()[second] = (cosine * x[second] + sine * x[first]).value;
      }
}

void runLayerNorm(LayerNormOp op, Frame &frame) {
  const HostTensor &x = frame.in(0);
  const HostTensor *gain = op.getGain() ? &frame.in(1) : nullptr,
                   *bias = op.getBias() ? &frame.in(gain ? 2 : 1) : nullptr;
  const int64_t width = x.columns();
  for (int64_t row = 0; row < x.rows(); ++row) {
    Scalar sum, squares;
    for (int64_t j = 0; j < width; ++j)
      sum += x[row * width + j];
    const Scalar mean = sum / static_cast<double>(width);
    std::vector<Scalar> centered;
    for (int64_t j = 0; j < width; ++j) {
      centered.push_back(Scalar(x[row * width + j]) - mean);
      squares += centered.back() * centered.back();
    }
    const Scalar r = reciprocalSqrt(squares / static_cast<double>(width) + op.getEpsilon().convertToDouble());
    frame.out(1)[row] = r.value;
    for (int64_t j = 0; j < width; ++j) {
      Scalar y = centered[j] * r;
      if (gain)
        y = y * (*gain)[j];
      if (bias)
        y = y + (*bias)[j];
      frame.out()[row * width + j] = y.value;
    }
  }
}

/// Rows of the table are added to the positions of each sequence.
void runPositionEmbedding(Frame &frame) {
  const HostTensor &x = frame.in(0), &table = frame.in(1);
  const int64_t period = x.shape[1] * x.shape[2];
  for (int64_t i = 0; i < x.size(); ++i)
    frame.out()[i] = (Scalar(x[i]) + table[i % period]).value;
}

void runPositionEmbeddingGradient(Frame &frame) {
  const HostTensor &dy = frame.in(0);
  const int64_t period = dy.shape[1] * dy.shape[2];
  for (int64_t i = 0; i < dy.size(); ++i) {
    double &sum = frame.out()[i % period];
    sum = (Scalar(sum) + dy[i]).value;
  }
}

Scalar product(const HostTensor &a, int64_t i, const HostTensor &b, int64_t j, int64_t size) {
  double sum = 0;
  for (int64_t d = 0; d < size; ++d)
    multiplyAdd(sum, a[i + d], b[j + d]);
  return sum;
}

/// The score of a product, and the capped score before the slope, which the adjoint reads.
struct Score {
  Scalar capped, value;

  template <typename Op> static Score of(Op op, Scalar product, int64_t head, int64_t s, int64_t t) {
    Score score;
    score.capped = op.getScale().convertToDouble() * product;
    if (const double cap = op.getSoftcap().convertToDouble(); cap != 0)
      score.capped = cap * transcendental(std::tanh((score.capped / cap).value));
    score.value = score.capped;
    if (!op.getSlopes().empty())
      score.value = score.value + Scalar(op.getSlopes()[head]) * static_cast<double>(t - s);
    return score;
  }
};

template <typename Body> void forEachRow(const AttentionSizes &z, Body body) {
  for (int64_t b = 0; b < z.batch; ++b)
    for (int64_t h = 0; h < z.heads; ++h)
      for (int64_t s = 0; s < z.seq; ++s)
        body(b, h, s);
}

void runAttention(AttentionOp op, Frame &frame) {
  const HostTensor &q = frame.in(0), &k = frame.in(1), &v = frame.in(2);
  const AttentionSizes z = AttentionSizes::of(op);
  forEachRow(z, [&](int64_t b, int64_t h, int64_t s) {
    std::vector<Scalar> scores;
    Scalar largest = -INFINITY, sum;
    for (int64_t t = z.first(s); t < z.limit(s); ++t) {
      scores.push_back(
          Score::of(op, product(q, z.query(b, s, h), k, z.key(b, t, h), z.headDim), h, s, t).value);
      largest = maximum(largest, scores.back());
    }
    if (op.getSinks())
      largest = maximum(largest, frame.in(3)[h]);
    for (Scalar &score : scores)
      sum += score = exp(score - largest);
    if (op.getSinks())
      sum += exp(Scalar(frame.in(3)[h]) - largest);
    for (int64_t t = z.first(s); t < z.limit(s); ++t) {
      const double p = (scores[t - z.first(s)] / sum).value;
      for (int64_t d = 0; d < z.valueDim; ++d)
        multiplyAdd(frame.out()[z.output(b, s, h) + d], p, v[z.value(b, t, h) + d]);
    }
    frame.out(1)[z.row(b, s, h)] = (largest + log(sum)).value;
  });
}

void runAttentionGradient(AttentionGradientOp op, Frame &frame) {
  const HostTensor &q = frame.in(0), &k = frame.in(1), &v = frame.in(2), &out = frame.in(3),
                   &lse = frame.in(4), &dout = frame.in(5);
  HostTensor &dq = frame.out(0), &dk = frame.out(1), &dv = frame.out(2);
  const AttentionSizes z = AttentionSizes::of(op);
  const Scalar scale = op.getScale().convertToDouble();
  const double cap = op.getSoftcap().convertToDouble();
  forEachRow(z, [&](int64_t b, int64_t h, int64_t s) {
    const int64_t row = z.query(b, s, h), at = z.output(b, s, h);
    const Scalar shift = lse[z.row(b, s, h)];
    Scalar mean;
    for (int64_t d = 0; d < z.valueDim; ++d)
      mean += Scalar(dout[at + d]) * out[at + d];
    for (int64_t t = z.first(s); t < z.limit(s); ++t) {
      const int64_t key = z.key(b, t, h), value = z.value(b, t, h);
      const Score score = Score::of(op, product(q, row, k, key, z.headDim), h, s, t);
      const Scalar p = exp(score.value - shift);
      Scalar ds = scale * (p * (product(dout, at, v, value, z.valueDim) - mean));
      if (cap != 0) {
        const Scalar ratio = score.capped / cap;
        ds = ds * (1.0 - ratio * ratio);
      }
      for (int64_t d = 0; d < z.valueDim; ++d)
        multiplyAdd(dv[value + d], p.value, dout[at + d]);
      for (int64_t d = 0; d < z.headDim; ++d) {
        multiplyAdd(dq[row + d], ds.value, k[key + d]);
        multiplyAdd(dk[key + d], ds.value, q[row + d]);
      }
    }
    if (op.getSinks()) {
      double &sum = frame.out(3)[h];
      sum = (Scalar(sum) - exp(Scalar(frame.in(6)[h]) - shift) * mean).value;
    }
  });
}

Scalar activate(llvm::StringRef function, Scalar x) {
  if (function == "silu")
    return x * sigmoid(x);
  if (function == "sigmoid")
    return sigmoid(x);
  if (function == "tanh")
    return transcendental(std::tanh(x.value));
  if (function == "gelu")
    return x * 0.5 * (1.0 + transcendental(std::erf((x * (1 / std::numbers::sqrt2)).value)));
  if (function == "gelu_tanh") {
    const Scalar inner = (x + x * x * x * 0.044715) * std::sqrt(2 / std::numbers::pi);
    return x * 0.5 * (1.0 + transcendental(std::tanh(inner.value)));
  }
  const Scalar positive = maximum(x, 0.0);
  return function == "relu" ? positive : positive * positive;
}

/// y[i] = body(i) over all elements.
template <typename Body> bool each(Frame &frame, Body body) {
  for (int64_t i = 0; i < frame.out().size(); ++i)
    frame.out()[i] = Scalar(body(i)).value;
  return true;
}

} // namespace

bool runDense(Frame &frame) {
  if (auto op = dyn_cast<LinearOp>(frame.op))
    return runLinear(op, frame), true;
  if (auto op = dyn_cast<RmsNormOp>(frame.op))
    return runRmsNorm(op, frame), true;
  if (auto op = dyn_cast<LayerNormOp>(frame.op))
    return runLayerNorm(op, frame), true;
  if (isa<PositionEmbeddingOp>(frame.op))
    return runPositionEmbedding(frame), true;
  if (isa<PositionEmbeddingGradientOp>(frame.op))
    return runPositionEmbeddingGradient(frame), true;
  if (auto op = dyn_cast<RopeOp>(frame.op))
    return runRope(op, frame), true;
  if (auto op = dyn_cast<AttentionOp>(frame.op))
    return runAttention(op, frame), true;
  if (auto op = dyn_cast<AttentionGradientOp>(frame.op))
    return runAttentionGradient(op, frame), true;
  if (auto op = dyn_cast<ActivationOp>(frame.op))
    return each(frame, [&](int64_t i) { return activate(op.getFunction(), frame.in(0)[i]); });
  if (isa<SwiGluOp>(frame.op))
    return each(frame, [&](int64_t i) {
      const Scalar gate = frame.in(0)[i];
      return gate * sigmoid(gate) * frame.in(1)[i];
    });
  if (isa<AddOp>(frame.op))
    return each(frame, [&](int64_t i) { return Scalar(frame.in(0)[i]) + frame.in(1)[i]; });
  if (auto op = dyn_cast<ScaleOp>(frame.op))
    return each(frame, [&](int64_t i) { return Scalar(frame.in(0)[i]) * op.getFactor().convertToDouble(); });
  if (isa<MultiplyOp>(frame.op)) {
    const llvm::SmallVector<int64_t> strides = broadcastStrides(frame.in(1).shape, frame.out().shape);
    forEachIndex(frame.out().shape, [&](llvm::ArrayRef<int64_t> index, int64_t linear) {
      frame.out()[linear] = (Scalar(frame.in(0)[linear]) * frame.in(1)[offsetOf(index, strides)]).value;
    });
    return true;
  }
  if (isa<SoftmaxOp>(frame.op)) {
    const HostTensor &x = frame.in(0);
    if (x.columns() == 1) // nothing to compare, nothing to sum
      return each(frame, [&](int64_t i) {
        const Scalar exponential = exp(Scalar(x[i]) - x[i]);
        return exponential / exponential;
      });
    for (int64_t row = 0; row < x.rows(); ++row)
      softmaxRow(&x.values[row * x.columns()], x.columns(), &frame.out().values[row * x.columns()]);
    return true;
  }
  return false;
}

} // namespace sluice::counting
