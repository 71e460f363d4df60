// Initial values and the optimizer with counting scalars.
#include "dialects/interpreter/CountingFamilies.h"
#include "dialects/sluice/Sluice.h"
#include "runtime/support/Philox.h"

#include <limits>
#include <numbers>

using namespace mlir;

namespace sluice::counting {
namespace {

/// Box-Muller, a pair of draws at a time; making a random word is one index operation a draw.
void runRandomNormal(RandomNormalOp op, Frame &frame) {
  const auto seed = static_cast<uint64_t>(static_cast<int64_t>(frame.in(0)[0]));
  const PhiloxStream stream(seed, streamKey(std::string_view(op.getStream().data(), op.getStream().size())));
  const double deviation = op.getStandardDeviation().convertToDouble();
  HostTensor &values = frame.out();
  for (int64_t pair = 0; 2 * pair < values.size(); ++pair) {
    const auto block = static_cast<uint64_t>(4 * pair);
    const Scalar angle = Scalar(stream.bits(block + 1)) * (2.0 * std::numbers::pi * 0x1p-32);
    const Scalar radius = sqrt(-2.0 * log(Scalar((stream.bits(block) + 1.0) * 0x1p-32)));
    const Scalar draws[] = {transcendental(std::cos(angle.value)), transcendental(std::sin(angle.value))};
    for (int64_t i = 2 * pair; i < std::min(2 * pair + 2, values.size()); ++i) {
      indexOnce();
      values[i] = static_cast<float>((deviation * (radius * draws[i % 2])).value);
    }
  }
}

void runGlobalNorm(Frame &frame) {
  Scalar sum;
  for (const HostTensor *gradient : frame.operands)
    for (double value : gradient->values)
      sum += Scalar(value) * value;
  frame.out()[0] = sqrt(sum).value;
}

void runAdamW(AdamWOp op, Frame &frame) {
  const Scalar rate = frame.in(4)[0], tokens = frame.in(6)[0], norm = frame.in(7)[0] / tokens;
  const double step = frame.in(5)[0], clip = op.getClip().convertToDouble(),
               decay = op.getWeightDecay().convertToDouble();
  const double beta1 = op.getBeta1().convertToDouble(), beta2 = op.getBeta2().convertToDouble();
  for (unsigned i = 0; i < 3; ++i)
    frame.out(i).values = frame.in(i).values;
  ++Tally::get().compare; // is the norm finite?
  if (!std::isfinite(frame.in(7)[0])) {
    llvm::fill(frame.out(3).values, std::numeric_limits<double>::quiet_NaN());
    return;
  }
  const Scalar correction1 = 1.0 - transcendental(std::pow(beta1, step));
  const Scalar correction2 = 1.0 - transcendental(std::pow(beta2, step));
  Scalar factor = 1.0, shrink = 0.0;
  if (clip > 0) {
    const Scalar quotient = clip / (norm + 1e-6);
    factor = norm > clip ? quotient : Scalar(1.0);
  }
  if (decay != 0)
    shrink = rate * decay;
  for (int64_t i = 0; i < frame.out().size(); ++i) {
    Scalar g = frame.in(3)[i] / tokens;
    if (clip > 0)
      g *= factor;
    const Scalar average = beta1 * Scalar(frame.in(1)[i]) + (1 - beta1) * g;
    const Scalar square = beta2 * Scalar(frame.in(2)[i]) + (1 - beta2) * g * g;
    Scalar parameter = frame.in(0)[i];
    if (decay != 0)
      parameter -= shrink * parameter;
    const Scalar root = sqrt(square / correction2) + op.getEpsilon().convertToDouble();
    parameter -= rate * (average / correction1 / root);
    frame.out(0)[i] = parameter.value, frame.out(1)[i] = average.value, frame.out(2)[i] = square.value;
  }
}

} // namespace

bool runTraining(Frame &frame) {
  if (auto op = dyn_cast<RandomNormalOp>(frame.op))
    return runRandomNormal(op, frame), true;
  if (auto op = dyn_cast<AdamWOp>(frame.op))
    return runAdamW(op, frame), true;
  if (isa<GlobalNormOp>(frame.op))
    return runGlobalNorm(frame), true;
  return false;
}

} // namespace sluice::counting
