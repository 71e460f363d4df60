// Masks with counting scalars: random masks, products' adjoints, the optimizer over kept weights, the update.
#include "dialects/interpreter/CountingFamilies.h"
#include "dialects/sluice/Sluice.h"
#include "runtime/support/Philox.h"

#include <algorithm>
#include <limits>

using namespace mlir;

namespace sluice::counting {
namespace {

void compareOnce() {
  ++Tally::get().compare;
}

void runApplyMask(Frame &frame) {
  for (int64_t i = 0; i < frame.out().size(); ++i) {
    compareOnce();
    if (frame.in(1)[i] != 0)
      frame.out()[i] = frame.in(0)[i];
  }
}

void runInputGradient(Frame &frame) {
  const HostTensor &dy = frame.in(0), &weight = frame.in(1), &mask = frame.in(2);
  const int64_t out = dy.columns(), in = frame.out().columns();
  for (int64_t row = 0; row < dy.rows(); ++row)
    for (int64_t i = 0; i < in; ++i)
      for (int64_t o = 0; o < out; ++o)
        if (mask[o * in + i] != 0)
          multiplyAdd(frame.out()[row * in + i], dy[row * out + o], weight[o * in + i]);
}

void runWeightGradient(Frame &frame) {
  const HostTensor &dy = frame.in(0), &x = frame.in(1), &mask = frame.in(2);
  const int64_t out = dy.columns(), in = x.columns();
  for (int64_t o = 0; o < out; ++o)
    for (int64_t i = 0; i < in; ++i)
      if (mask[o * in + i] != 0)
        for (int64_t row = 0; row < dy.rows(); ++row)
          multiplyAdd(frame.out()[o * in + i], dy[row * out + o], x[row * in + i]);
}

void runMaskedAdamW(MaskedAdamWOp op, Frame &frame) {
  const Scalar rate = frame.in(5)[0], tokens = frame.in(7)[0], norm = frame.in(8)[0] / tokens;
  const double step = frame.in(6)[0], clip = op.getClip().convertToDouble(),
               decay = op.getWeightDecay().convertToDouble(), ramp = op.getRamp().convertToDouble(),
               beta1 = op.getBeta1().convertToDouble(), beta2 = op.getBeta2().convertToDouble();
  const bool ages = static_cast<bool>(op.getAge()), updates = std::isfinite(frame.in(8)[0]);
  compareOnce(); // is the norm finite?
  auto corrections = [&](double steps) {
    return std::pair<Scalar, Scalar>(1.0 - transcendental(std::pow(beta1, steps)),
                                     1.0 - transcendental(std::pow(beta2, steps)));
  };
  std::pair<Scalar, Scalar> correction;
  Scalar factor = 1.0, shrink = 0.0;
  if (updates && !ages)
    correction = corrections(step);
  if (updates && clip > 0) {
    const Scalar quotient = clip / (norm + 1e-6);
    factor = norm > clip ? quotient : Scalar(1.0);
  }
  if (updates && decay != 0)
    shrink = rate * decay;
  for (int64_t i = 0; i < frame.out().size(); ++i) {
    if (frame.in(4)[i] == 0)
      continue;
    Scalar parameter = frame.in(0)[i], average = frame.in(1)[i], square = frame.in(2)[i];
    Scalar age = ages ? frame.in(9)[i] : 0.0;
    if (updates) {
      if (ages) {
        age += 1.0;
        correction = corrections(age.value);
      }
      Scalar g = frame.in(3)[i] / tokens;
      if (clip > 0)
        g *= factor;
      average = beta1 * average + (1 - beta1) * g;
      if (ramp > 0) {
        const Scalar risen = age / ramp;
        average *= risen > Scalar(1.0) ? Scalar(1.0) : risen;
      }
      square = beta2 * square + (1 - beta2) * g * g;
      if (decay != 0)
        parameter -= shrink * parameter;
      const Scalar root = sqrt(square / correction.second) + op.getEpsilon().convertToDouble();
      parameter -= rate * (average / correction.first / root);
    }
    frame.out(0)[i] = parameter.value, frame.out(1)[i] = average.value, frame.out(2)[i] = square.value;
    frame.out(3)[i] = updates ? 0.0 : std::numeric_limits<double>::quiet_NaN();
    if (ages)
      frame.out(4)[i] = age.value;
  }
}

/// One look at every weight, and one comparison with the last key that is taken, a pass. Which weights a pass
/// takes is the op's own meaning: a selection has no arithmetic to count.
void runSelection(Frame &frame, int64_t weights, int passes) {
  for (int64_t i = 0; i < passes * weights; ++i) {
    indexOnce();
    compareOnce();
  }
  Evaluation evaluation(frame.op, frame.operands);
  if (succeeded(cast<Evaluable>(frame.op).evaluate(evaluation)))
    frame.results = evaluation.takeResults();
}

} // namespace

bool runSparsity(Frame &frame) {
  if (isa<ApplyMaskOp>(frame.op))
    return runApplyMask(frame), true;
  if (isa<MaskedInputGradientOp>(frame.op))
    return runInputGradient(frame), true;
  if (isa<MaskedWeightGradientOp>(frame.op))
    return runWeightGradient(frame), true;
  if (auto op = dyn_cast<MaskedAdamWOp>(frame.op))
    return runMaskedAdamW(op, frame), true;
  if (isa<RandomMaskOp>(frame.op))
    return runSelection(frame, frame.out().size(), 1), true;
  if (auto op = dyn_cast<UpdateMaskOp>(frame.op))
    return runSelection(frame, frame.out().size(), op.getGrow() == "none" ? 1 : 2), true;
  return false;
}

} // namespace sluice::counting
