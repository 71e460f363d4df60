// rope: rotary positions of (a part of) each head, half-split or interleaved pairs.
#include "dialects/sluice/ops/Answers.h"

#include <cmath>

using namespace mlir;

namespace sluice {
namespace {

/// Where the pairs of one head lie.
struct Pairs {
  int64_t headDim, offset, count, firstStride, secondOffset;

  static Pairs of(RopeOp op) {
    const int64_t headDim = tensorTypeOf(op.getX()).getShape().back() / static_cast<int64_t>(op.getHeads());
    const int64_t offset = static_cast<int64_t>(op.getOffset());
    const int64_t rotary = op.getRotaryDim() ? static_cast<int64_t>(op.getRotaryDim()) : headDim - offset;
    return {headDim, offset, rotary / 2, op.getInterleaved() ? 2 : 1, op.getInterleaved() ? 1 : rotary / 2};
  }
  int64_t first(int64_t pair) const { return offset + pair * firstStride; }
};

} // namespace

LogicalResult RopeOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                       DictionaryAttr, OpaqueProperties, RegionRange,
                                       llvm::SmallVectorImpl<Type> &types) {
  if (failed(inferRank(location, "rope", "x", operands[0], 3, 3)))
    return failure();
  types.push_back(operands[0].getType());
  return success();
}

LogicalResult RopeOp::verify() {
  const Dim width = dimsOf(getX().getType()).back();
  const int64_t heads = static_cast<int64_t>(getHeads());
  if (heads < 1 || !width.isStatic() || width.size % heads != 0)
    return ruleError(*this) << "x must be [batch, seq, heads * head_dim], found "
                            << shapeText(getX().getType()) << " for " << heads << " heads";
  const int64_t headDim = width.size / heads, offset = static_cast<int64_t>(getOffset()),
                stated = static_cast<int64_t>(getRotaryDim()), rotary = stated ? stated : headDim - offset;
  if (offset < 0 || rotary < 2 || rotary % 2 != 0 || rotary > headDim - offset)
    return ruleError(*this) << "the rotary part must have an even, positive size inside a head of " << headDim
                            << ", found " << rotary << " from offset " << offset;
  if (!(getTheta().convertToDouble() > 0))
    return ruleError(*this) << "theta must be positive, found " << getTheta().convertToDouble();
  if (!(getFactor().convertToDouble() > 0))
    return ruleError(*this) << "factor must be positive, found " << getFactor().convertToDouble();
  if (!getFrequencies().empty() && static_cast<int64_t>(getFrequencies().size()) != rotary / 2)
    return ruleError(*this) << "frequencies must hold one number a pair (" << rotary / 2 << "), found "
                            << getFrequencies().size();
  return success();
}

OpCounts RopeOp::count() {
  // Per pair four products and two sums; angles (and the factor on their cosine and sine) are tables.
  const Pairs pairs = Pairs::of(*this);
  const Count turned =
      elementCount(getX()) / static_cast<Count>(pairs.headDim) * static_cast<Count>(pairs.count);
  ClassCounts counts;
  counts.multiply = 4 * turned;
  counts.add = 2 * turned;
  return OpCounts::same(counts);
}

RecomputeCost RopeOp::recomputeCost() {
  return RecomputeCost::Cheap;
}

LogicalResult RopeOp::evaluate(Evaluation &evaluation) {
  const HostTensor &x = evaluation.operand(0);
  HostTensor &y = evaluation.result(0);
  const Pairs pairs = Pairs::of(*this);
  const int64_t seq = x.shape[1], width = x.shape[2];
  const double theta = getTheta().convertToDouble(), factor = getFactor().convertToDouble(),
               direction = getInverse() ? -1.0 : 1.0;
  llvm::ArrayRef<double> table = getFrequencies();
  y.values = x.values;
  for (int64_t row = 0; row < x.rows(); ++row) {
    const double position = static_cast<double>(row % seq);
    for (int64_t head = 0; head < width; head += pairs.headDim) {
      for (int64_t i = 0; i < pairs.count; ++i) {
        const double frequency =
            table.empty() ? std::pow(theta, -static_cast<double>(i) / static_cast<double>(pairs.count))
                          : table[i];
        const double cosine = factor * std::cos(position * frequency),
                     sine = direction * factor * std::sin(position * frequency);
        const int64_t first = row * width + head + pairs.first(i), second = first + pairs.secondOffset;
        y[first] = x[first] * cosine - x[second] * sine;
        y[second] = x[second] * cosine + x[first] * sine;
      }
    }
  }
  return success();
}

LogicalResult RopeOp::buildAdjoint(AdjointBuilder &adjoint) {
  Value dy = adjoint.cotangent(0);
  if (dy && adjoint.needed(0))
    adjoint.setOperandCotangent(0, RopeOp::create(adjoint.builder, adjoint.loc, dy, getHeads(), getTheta(),
                                                  !getInverse(), getOffset(), getRotaryDim(),
                                                  getInterleaved(), getFactor(), getFrequencies()));
  return success();
}

std::string RopeOp::commandKind() {
  return "rope";
}
void RopeOp::commandAttributes(NamedAttrList &attributes) {
  const Pairs pairs = Pairs::of(*this);
  setInteger(attributes, getContext(), "heads", static_cast<int64_t>(getHeads()));
  setInteger(attributes, getContext(), "head_dim", pairs.headDim);
  setNumber(attributes, getContext(), "theta", getTheta().convertToDouble());
  setInteger(attributes, getContext(), "inverse", getInverse());
  // What goes beyond plain rotary positions is named only where it is used.
  if (2 * pairs.count != pairs.headDim) {
    setInteger(attributes, getContext(), "offset", pairs.offset);
    setInteger(attributes, getContext(), "rotary_dim", 2 * pairs.count);
  }
  if (getInterleaved())
    setInteger(attributes, getContext(), "interleaved", 1);
  if (getFactor().convertToDouble() != 1)
    setNumber(attributes, getContext(), "factor", getFactor().convertToDouble());
  if (!getFrequencies().empty())
    setText(attributes, getContext(), "frequencies", numbersText(getFrequencies()));
}
LogicalResult RopeOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

} // namespace sluice
