// Initial values and the optimizer: random_normal, global_norm, adamw.
#include "dialects/sluice/ops/Answers.h"
#include "runtime/support/Philox.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace sluice {

// ----- random_normal
// ---------------------------------------------------------------------------------------------

LogicalResult RandomNormalOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                               ValueRange operands, DictionaryAttr attributes,
                                               OpaqueProperties properties, RegionRange regions,
                                               llvm::SmallVectorImpl<Type> &types) {
  Adaptor op(operands, attributes, properties, regions);
  auto type = dyn_cast<RankedTensorType>(op.getType());
  if (!type || !type.hasStaticShape())
    return emitOptionalError(location, "'sluice.random_normal' op type must be a static tensor, found ",
                             op.getType());
  types.push_back(type);
  return success();
}

LogicalResult RandomNormalOp::verify() {
  auto seed = tensorTypeOf(getSeed());
  if (!seed.hasStaticShape() || seed.getNumElements() != 1 || !seed.getElementType().isInteger(64))
    return ruleError(*this) << "seed must be one 64-bit integer, found " << seed;
  if (getStandardDeviation().isNegative())
    return ruleError(*this) << "standard_deviation must not be negative, found "
                            << getStandardDeviation().convertToDouble();
  return success();
}

OpCounts RandomNormalOp::count() {
  // A pair of draws (Box-Muller): log, sqrt, cos, sin; products for the angle, the radius, the two draws and
  // their deviations; the integer work of Philox counts once a draw.
  const Count draws = elementCount(getValues()), pairs = (draws + 1) / 2;
  ClassCounts counts;
  counts.transcendental = 3 * pairs;
  counts.divide = pairs;
  counts.multiply = 2 * pairs + 2 * draws;
  counts.index = draws;
  return OpCounts::same(counts);
}

RecomputeCost RandomNormalOp::recomputeCost() {
  return RecomputeCost::Cheap;
}

LogicalResult RandomNormalOp::evaluate(Evaluation &evaluation) {
  HostTensor &values = evaluation.result(0);
  const auto seed = static_cast<uint64_t>(static_cast<int64_t>(evaluation.operand(0)[0]));
  const PhiloxStream stream(seed, streamKey(std::string_view(getStream().data(), getStream().size())));
  for (int64_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(getStandardDeviation().convertToDouble() *
                                   stream.normal(static_cast<uint64_t>(i)));
  return success();
}

std::string RandomNormalOp::commandKind() {
  return "random_normal";
}
void RandomNormalOp::commandAttributes(NamedAttrList &attributes) {
  setText(attributes, getContext(), "stream", getStream());
  setNumber(attributes, getContext(), "mean", 0.0);
  setNumber(attributes, getContext(), "standard_deviation", getStandardDeviation().convertToDouble());
}
LogicalResult RandomNormalOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

// ----- global_norm
// -----------------------------------------------------------------------------------------------

LogicalResult GlobalNormOp::inferReturnTypes(MLIRContext *context, std::optional<Location>, ValueRange,
                                             DictionaryAttr, OpaqueProperties, RegionRange,
                                             llvm::SmallVectorImpl<Type> &types) {
  types.push_back(RankedTensorType::get({}, Float32Type::get(context)));
  return success();
}

LogicalResult GlobalNormOp::verify() {
  if (getGradients().empty())
    return ruleError(*this) << "needs at least one gradient";
  return success();
}

OpCounts GlobalNormOp::count() {
  ClassCounts counts;
  for (Value gradient : getGradients())
    counts.multiply += elementCount(gradient);
  counts.multiply = wholeElements(*this, counts.multiply);
  counts.add = counts.multiply;
  counts.divide = 1;
  return OpCounts::same(counts);
}

RecomputeCost GlobalNormOp::recomputeCost() {
  return RecomputeCost::Never;
}

LogicalResult GlobalNormOp::evaluate(Evaluation &evaluation) {
  double sum = 0;
  for (unsigned i = 0; i < getGradients().size(); ++i)
    for (double value : evaluation.operand(i).values)
      sum += value * value;
  evaluation.result(0)[0] = std::sqrt(sum);
  return success();
}

std::string GlobalNormOp::commandKind() {
  return "global_norm";
}
void GlobalNormOp::commandAttributes(NamedAttrList &) {}
LogicalResult GlobalNormOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

// ----- adamw
// -----------------------------------------------------------------------------------------------------

LogicalResult AdamWOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands,
                                        DictionaryAttr, OpaqueProperties, RegionRange,
                                        llvm::SmallVectorImpl<Type> &types) {
  for (unsigned i = 0; i < 4; ++i)
    types.push_back(operands[i].getType());
  return success();
}

LogicalResult AdamWOp::verify() {
  llvm::SmallVector<Dim> shape = dimsOf(getParameter().getType());
  using Named = std::pair<llvm::StringRef, Value>;
  for (auto [name, value] :
       {Named("exp_avg", getExpAvg()), Named("exp_avg_sq", getExpAvgSq()), Named("gradient", getGradient())})
    if (failed(requireShape(*this, name, value, shape, "the parameter's shape")))
      return failure();
  for (auto [name, value] : {Named("learning_rate", getLearningRate()), Named("step", getStep()),
                             Named("tokens", getTokens()), Named("norm", getNorm())})
    if (failed(requireShape(*this, name, value, {}, "one number")))
      return failure();
  return success();
}

OpCounts AdamWOp::count() {
  const bool clips = getClip().convertToDouble() > 0, decays = getWeightDecay().convertToDouble() != 0;
  // Per element, as the description writes it: g; exp_avg; exp_avg_sq; decay; two corrections, root, epsilon,
  // ratio, rate, difference.
  ClassCounts each;
  each.divide = 1 + 2 + 1 + 1;
  each.multiply = clips + 2 + 3 + decays + 1;
  each.add = 1 + 1 + decays + 1 + 1;
  ClassCounts counts = each.times(elementCount(getParameter()));
  // Once: the mean norm, the two corrections 1 - beta^step, rate times decay, the clip's factor and
  // comparison.
  counts.divide += 1 + clips;
  counts.transcendental += 2;
  counts.add += 2 + clips;
  counts.multiply += decays;
  counts.compare += 1 + clips;
  return OpCounts::same(counts);
}

RecomputeCost AdamWOp::recomputeCost() {
  return RecomputeCost::Never;
}

LogicalResult AdamWOp::evaluate(Evaluation &evaluation) {
  const double rate = evaluation.operand(4)[0], step = evaluation.operand(5)[0],
               tokens = evaluation.operand(6)[0];
  const double norm = evaluation.operand(7)[0] / tokens, clip = getClip().convertToDouble();
  const double beta1 = getBeta1().convertToDouble(), beta2 = getBeta2().convertToDouble();
  const double decay = getWeightDecay().convertToDouble(), epsilon = getEpsilon().convertToDouble();
  HostTensor &parameter = evaluation.result(0), &average = evaluation.result(1),
             &square = evaluation.result(2);
  parameter.values = evaluation.operand(0).values;
  average.values = evaluation.operand(1).values;
  square.values = evaluation.operand(2).values;
  if (!std::isfinite(evaluation.operand(7)[0])) {
    llvm::fill(evaluation.result(3).values, std::numeric_limits<double>::quiet_NaN());
    return success();
  }
  const double factor = clip > 0 && norm > clip ? clip / (norm + 1e-6) : 1.0;
  for (int64_t i = 0; i < parameter.size(); ++i) {
    const double g = evaluation.operand(3)[i] / tokens * factor;
    average[i] = beta1 * average[i] + (1 - beta1) * g;
    square[i] = beta2 * square[i] + (1 - beta2) * g * g;
    parameter[i] -= rate * decay * parameter[i];
    parameter[i] -= rate * (average[i] / (1 - std::pow(beta1, step))) /
                    (std::sqrt(square[i] / (1 - std::pow(beta2, step))) + epsilon);
  }
  return success();
}

std::string AdamWOp::commandKind() {
  return "adamw";
}
void AdamWOp::commandAttributes(NamedAttrList &attributes) {
  MLIRContext *context = getContext();
  setNumber(attributes, context, "beta1", getBeta1().convertToDouble());
  setNumber(attributes, context, "beta2", getBeta2().convertToDouble());
  setNumber(attributes, context, "epsilon", getEpsilon().convertToDouble());
  setNumber(attributes, context, "weight_decay", getWeightDecay().convertToDouble());
  setNumber(attributes, context, "clip", getClip().convertToDouble());
}
LogicalResult AdamWOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

} // namespace sluice
