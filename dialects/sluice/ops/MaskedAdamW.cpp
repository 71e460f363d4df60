// masked_adamw: the optimizer's pass over kept weights.
#include "dialects/sluice/ops/MaskRules.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace sluice {

LogicalResult MaskedAdamWOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands,
                                              DictionaryAttr attributes, OpaqueProperties properties,
                                              RegionRange regions, llvm::SmallVectorImpl<Type> &types) {
  Adaptor op(operands, attributes, properties, regions);
  for (unsigned i = 0; i < 4; ++i)
    types.push_back(operands[i].getType());
  if (op.getAge())
    types.push_back(op.getAge().getType());
  return success();
}

LogicalResult MaskedAdamWOp::verify() {
  llvm::SmallVector<Dim> shape = dimsOf(getParameter().getType());
  using Named = std::pair<llvm::StringRef, Value>;
  for (auto [name, value] : {Named("exp_avg", getExpAvg()), Named("exp_avg_sq", getExpAvgSq()),
                             Named("gradient", getGradient()), Named("age", getAge())})
    if (value && failed(requireShape(*this, name, value, shape, "the parameter's shape")))
      return failure();
  for (auto [name, value] : {Named("learning_rate", getLearningRate()), Named("step", getStep()),
                             Named("tokens", getTokens()), Named("norm", getNorm())})
    if (failed(requireShape(*this, name, value, {}, "one number")))
      return failure();
  if (getRamp().convertToDouble() < 0 || (getRamp().convertToDouble() > 0 && !getAge()))
    return ruleError(*this) << "ramp must not be negative and needs an age, found "
                            << getRamp().convertToDouble();
  return requireMaskOrKept(*this, getMask(), getParameter(), "parameter");
}

OpCounts MaskedAdamWOp::count() {
  const bool clips = getClip().convertToDouble() > 0, decays = getWeightDecay().convertToDouble() != 0;
  const bool ages = static_cast<bool>(getAge()), ramps = getRamp().convertToDouble() > 0;
  // Per weight, as adamw; with an age its increment and both corrections 1 - beta^age, and the ramp.
  ClassCounts each;
  each.divide = 1 + 2 + 1 + 1 + ramps;
  each.multiply = clips + 2 + 3 + decays + 1 + ramps;
  each.add = 1 + 1 + decays + 1 + 1 + 3 * ages;
  each.transcendental = 2 * ages;
  each.compare = ramps;
  ClassCounts once;
  once.divide = 1 + clips;
  once.transcendental = ages ? 0 : 2;
  once.add = (ages ? 0 : 2) + clips;
  once.multiply = decays;
  once.compare = 1 + clips;
  OpCounts counts;
  MaskType mask = maskTypeOf(getMask());
  counts.ideal = each.times(mask.keptWeights());
  counts.dense = each.times(Count(mask.matrixSize()) * mask.matrices());
  counts.ideal += once;
  counts.dense += once;
  return counts;
}

RecomputeCost MaskedAdamWOp::recomputeCost() {
  return RecomputeCost::Never;
}

LogicalResult MaskedAdamWOp::evaluate(Evaluation &evaluation) {
  const HostTensor &mask = evaluation.operand(4);
  const double rate = evaluation.operand(5)[0], step = evaluation.operand(6)[0],
               tokens = evaluation.operand(7)[0], norm = evaluation.operand(8)[0] / tokens;
  const HostTensor *age = getAge() ? &evaluation.operand(9) : nullptr;
  const double clip = getClip().convertToDouble(), ramp = getRamp().convertToDouble(),
               beta1 = getBeta1().convertToDouble(), beta2 = getBeta2().convertToDouble(),
               decay = getWeightDecay().convertToDouble(), epsilon = getEpsilon().convertToDouble();
  const bool updates = std::isfinite(evaluation.operand(8)[0]);
  const double factor = clip > 0 && norm > clip ? clip / (norm + 1e-6) : 1.0;
  const bool keptForm = isKeptForm(getParameter(), getMask());
  for (int64_t i = 0; i < evaluation.result(0).size(); ++i) {
    if (!keptForm && mask[i] == 0)
      continue; // results start as zeros
    double parameter = evaluation.operand(0)[i], average = evaluation.operand(1)[i],
           square = evaluation.operand(2)[i], steps = age ? (*age)[i] : step;
    if (updates) {
      const double g = evaluation.operand(3)[i] / tokens * factor;
      steps += age ? 1 : 0;
      average = beta1 * average + (1 - beta1) * g;
      if (ramp > 0)
        average *= std::min(steps / ramp, 1.0);
      square = beta2 * square + (1 - beta2) * g * g;
      parameter -= rate * decay * parameter;
      parameter -= rate * (average / (1 - std::pow(beta1, steps))) /
                   (std::sqrt(square / (1 - std::pow(beta2, steps))) + epsilon);
    } else {
      evaluation.result(3)[i] = std::numeric_limits<double>::quiet_NaN();
    }
    evaluation.result(0)[i] = parameter, evaluation.result(1)[i] = average, evaluation.result(2)[i] = square;
    if (age)
      evaluation.result(4)[i] = steps;
  }
  return success();
}

std::string MaskedAdamWOp::commandKind() {
  return "masked_adamw";
}
void MaskedAdamWOp::commandAttributes(NamedAttrList &attributes) {
  MLIRContext *context = getContext();
  setNumber(attributes, context, "beta1", getBeta1().convertToDouble());
  setNumber(attributes, context, "beta2", getBeta2().convertToDouble());
  setNumber(attributes, context, "epsilon", getEpsilon().convertToDouble());
  setNumber(attributes, context, "weight_decay", getWeightDecay().convertToDouble());
  setNumber(attributes, context, "clip", getClip().convertToDouble());
  setNumber(attributes, context, "ramp", getRamp().convertToDouble());
  if (isKeptForm(getParameter(), getMask()))
    setInteger(attributes, context, "kept_only", 1);
}
LogicalResult MaskedAdamWOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

} // namespace sluice
