// The products of experts: grouped_linear and its gradients, one product an expert over its rows.
#include "dialects/sluice/ops/MaskRules.h"
#include "dialects/sluice/ops/Place.h"
#include "dialects/sluice/ops/RoutingBuffer.h"

#include <cmath>

using namespace mlir;

namespace sluice {
namespace {

/// Useful work reads each routed row once, and of its expert's weights those that the mask keeps; dense work
/// sends every token through every expert.
OpCounts groupedCounts(RoutingType routing, const ClassCounts &perRow, Value mask = {}) {
  OpCounts counts;
  ClassCounts useful = perRow;
  if (mask)
    useful.contraction = 2 * Count(maskTypeOf(mask).getKept());
  counts.ideal = useful.times(Count(routing.tokenCount()) * routing.getTopK());
  counts.dense = perRow.times(Count(routing.tokenCount()) * routing.getExperts());
  return counts;
}

/// Calls `body(expert, row)` for all rows, expert by expert.
template <typename Body> void forEachRow(const RoutingView &routing, Body body) {
  for (int64_t expert = 0; expert < routing.experts; ++expert)
    for (int64_t row = routing.offset(expert); row < routing.offset(expert + 1); ++row)
      body(expert, row);
}

/// [experts, out, in] of a weight, also of one in kept form, whose mask says it.
llvm::SmallVector<Dim> matrixDims(Value weight, Value mask) {
  if (!mask || !isKeptForm(weight, mask))
    return dimsOf(weight.getType());
  llvm::SmallVector<Dim> sizes;
  for (int64_t size : maskTypeOf(mask).getShape())
    sizes.emplace_back(size);
  return sizes;
}

} // namespace

LogicalResult GroupedLinearOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location,
                                                ValueRange operands, DictionaryAttr attributes,
                                                OpaqueProperties properties, RegionRange regions,
                                                llvm::SmallVectorImpl<Type> &inferred) {
  Adaptor adaptor(operands, attributes, properties, regions);
  Type x = adaptor.getX().getType(), weight = adaptor.getWeight().getType();
  llvm::SmallVector<Dim> sizes = matrixDims(adaptor.getWeight(), adaptor.getMask());
  if (sizes.size() != 3 || dimsOf(x).size() != 2)
    return emitOptionalError(
        location, "'sluice.grouped_linear' op needs x [rows, in] and weight [experts, out, in], found ",
        shapeText(x), " and ", shapeText(weight));
  inferred.push_back(withLastSize(x, sizes[adaptor.getTransposeWeight() ? 2 : 1]));
  return success();
}

LogicalResult GroupedLinearOp::verify() {
  RoutingType routing = routingTypeOf(getRouting());
  if (failed(verifyRows(*this, getX(), routing, "x")))
    return failure();
  llvm::SmallVector<Dim> sizes = matrixDims(getWeight(), getMask());
  // Checked before inference when the file states the result's type.
  if (sizes.size() != 3)
    return emitPlacedError(*this) << "weight must be [experts, out, in], found "
                                  << shapeText(getWeight().getType());
  if (sizes[0] != Dim(routing.getExperts()))
    return emitPlacedError(*this) << "weight must have one matrix for each of the assignment's "
                                  << routing.getExperts() << " experts, found "
                                  << shapeText(getWeight().getType());
  if (sizes[getTransposeWeight() ? 1 : 2] != dimsOf(getX().getType()).back())
    return emitPlacedError(*this) << "x " << shapeText(getX().getType()) << " and weight "
                                  << shapeText(getWeight().getType()) << " disagree in the number of inputs";
  if (getBias() && dimsOf(getBias().getType()) !=
                       llvm::SmallVector<Dim>{Dim(routing.getExperts()), dimsOf(getY().getType()).back()})
    return emitPlacedError(*this) << "bias must be [experts, out], found " << shapeText(getBias().getType());
  if (getMask() && failed(requireMaskOrKept(*this, getMask(), getWeight(), "weight")))
    return failure();
  if (auto dispatch = getX().getDefiningOp<DispatchOp>(); dispatch && dispatch.getRouting() != getRouting())
    return emitPlacedError(*this) << "rows were grouped by another assignment than the one named here";
  return success();
}

OpCounts GroupedLinearOp::count() {
  ClassCounts perRow;
  perRow.contraction = 2 * lastSizeOf(getX()) * lastSizeOf(getY());
  perRow.add = getBias() ? lastSizeOf(getY()) : 0;
  return groupedCounts(routingTypeOf(getRouting()), perRow, getMask());
}

RecomputeCost GroupedLinearOp::recomputeCost() {
  return RecomputeCost::Costly;
}

LogicalResult GroupedLinearOp::evaluate(Evaluation &evaluation) {
  RoutingView routing(evaluation.operand(2), routingTypeOf(getRouting()));
  HostTensor &y = evaluation.result(0);
  const HostTensor *mask = getMask() ? &evaluation.operand(getBias() ? 4 : 3) : nullptr;
  const HostTensor &x = evaluation.operand(0),
                   weight = mask ? wholeOf(evaluation.operand(1), *mask) : evaluation.operand(1);
  const int64_t in = x.columns(), out = y.columns();
  const int64_t inStride = getTransposeWeight() ? out : 1, outStride = getTransposeWeight() ? 1 : in;
  forEachRow(routing, [&](int64_t expert, int64_t row) {
    for (int64_t o = 0; o < out; ++o) {
      double sum = getBias() ? evaluation.operand(3)[expert * out + o] : 0.0;
      for (int64_t i = 0; i < in; ++i) {
        const int64_t at = expert * in * out + o * outStride + i * inStride;
        if (!mask || (*mask)[at] != 0)
          sum += x[row * in + i] * weight[at];
      }
      y[row * out + o] = sum;
    }
  });
  return success();
}

LogicalResult GroupedLinearOp::buildAdjoint(AdjointBuilder &adjoint) {
  Value dy = adjoint.cotangent(0);
  if (!dy)
    return success();
  OpBuilder &builder = adjoint.builder;
  if (adjoint.needed(0))
    adjoint.setOperandCotangent(0,
                                GroupedLinearOp::create(builder, adjoint.loc, dy, getWeight(), getRouting(),
                                                        Value(), getMask(), !getTransposeWeight()));
  if (adjoint.needed(1)) {
    Value first = getTransposeWeight() ? Value(getX()) : dy,
          second = getTransposeWeight() ? dy : Value(getX());
    adjoint.setOperandCotangent(
        1, GroupedWeightGradientOp::create(builder, adjoint.loc, first, second, getRouting(), getMask()));
  }
  if (getBias() && adjoint.needed(3))
    adjoint.setOperandCotangent(3, GroupedSumOp::create(builder, adjoint.loc, dy, getRouting()));
  return success();
}

std::string GroupedLinearOp::commandKind() {
  return getMask() ? "masked_grouped_gemm" : "grouped_gemm";
}
void GroupedLinearOp::commandAttributes(NamedAttrList &attributes) {
  appendInteger(attributes, *this, "top_k", routingTypeOf(getRouting()).getTopK());
  appendInteger(attributes, *this, "transpose_w", getTransposeWeight() ? 1 : 0);
  if (getMask())
    setMaskedKernel(*this, getMask(), getWeight(), attributes);
}
LogicalResult GroupedLinearOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

// ----- weight gradient
// -----------------------------------------------------------------------------------------

LogicalResult GroupedWeightGradientOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                                        ValueRange operands, DictionaryAttr attributes,
                                                        OpaqueProperties properties, RegionRange regions,
                                                        llvm::SmallVectorImpl<Type> &inferred) {
  Adaptor adaptor(operands, attributes, properties, regions);
  llvm::SmallVector<Dim> dy = dimsOf(operands[0].getType()), x = dimsOf(operands[1].getType());
  if (dy.size() != 2 || x.size() != 2 || dy[0] != x[0])
    return emitOptionalError(
        location, "'sluice.grouped_weight_gradient' op needs dy [rows, out] and x [rows, in], found ",
        shapeText(operands[0].getType()), " and ", shapeText(operands[1].getType()));
  const Type element = elementTypeOf(operands[0]);
  if (adaptor.getKeptOnly() && adaptor.getMask())
    inferred.push_back(RankedTensorType::get(maskTypeOf(adaptor.getMask()).keptShape(), element));
  else
    inferred.push_back(tensorOf({Dim(routingTypeOf(operands[2]).getExperts()), dy[1], x[1]}, element));
  return success();
}

LogicalResult GroupedWeightGradientOp::verify() {
  if (failed(verifyRows(*this, getDy(), routingTypeOf(getRouting()), "dy")))
    return failure();
  if (getKeptOnly() && !getMask())
    return emitPlacedError(*this) << "kept_only needs a mask, found none";
  return getMask() ? requireMaskOrKept(*this, getMask(), getDweight(), "gradient") : success();
}

OpCounts GroupedWeightGradientOp::count() {
  ClassCounts perRow;
  perRow.contraction = 2 * lastSizeOf(getDy()) * lastSizeOf(getX());
  return groupedCounts(routingTypeOf(getRouting()), perRow, getMask());
}

RecomputeCost GroupedWeightGradientOp::recomputeCost() {
  return RecomputeCost::Costly;
}

LogicalResult GroupedWeightGradientOp::evaluate(Evaluation &evaluation) {
  const HostTensor &dy = evaluation.operand(0), &x = evaluation.operand(1);
  RoutingView routing(evaluation.operand(2), routingTypeOf(getRouting()));
  const HostTensor *mask = getMask() ? &evaluation.operand(3) : nullptr;
  const int64_t in = x.columns(), out = dy.columns();
  HostTensor &result = evaluation.result(0);
  HostTensor dweight({routing.experts, out, in});
  forEachRow(routing, [&](int64_t expert, int64_t row) {
    for (int64_t o = 0; o < out; ++o)
      for (int64_t i = 0; i < in; ++i)
        if (const int64_t at = (expert * out + o) * in + i; !mask || (*mask)[at] != 0)
          dweight[at] += dy[row * out + o] * x[row * in + i];
  });
  result = getKeptOnly() ? keptOf(dweight, *mask, result.shape) : std::move(dweight);
  return success();
}

std::string GroupedWeightGradientOp::commandKind() {
  return getMask() ? "masked_grouped_weight_gradient" : "grouped_weight_gradient";
}
void GroupedWeightGradientOp::commandAttributes(NamedAttrList &attributes) {
  appendInteger(attributes, *this, "top_k", routingTypeOf(getRouting()).getTopK());
  if (getMask())
    setMaskedKernel(*this, getMask(), getDweight(), attributes);
}
LogicalResult GroupedWeightGradientOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

// ----- sums
// ----------------------------------------------------------------------------------------------------

LogicalResult GroupedSumOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                             ValueRange operands, DictionaryAttr, OpaqueProperties,
                                             RegionRange, llvm::SmallVectorImpl<Type> &inferred) {
  auto dy = cast<RankedTensorType>(operands[0].getType());
  if (dy.getRank() != 2)
    return emitOptionalError(location, "'sluice.grouped_sum' op needs dy [rows, out], found ", shapeText(dy));
  inferred.push_back(
      tensorOf({Dim(routingTypeOf(operands[1]).getExperts()), dimsOf(dy).back()}, dy.getElementType()));
  return success();
}

LogicalResult GroupedSumOp::verify() {
  return verifyRows(*this, getDy(), routingTypeOf(getRouting()), "dy");
}

OpCounts GroupedSumOp::count() {
  ClassCounts perRow;
  perRow.add = lastSizeOf(getDy());
  return groupedCounts(routingTypeOf(getRouting()), perRow);
}

RecomputeCost GroupedSumOp::recomputeCost() {
  return RecomputeCost::Cheap;
}

LogicalResult GroupedSumOp::evaluate(Evaluation &evaluation) {
  const HostTensor &dy = evaluation.operand(0);
  RoutingView routing(evaluation.operand(1), routingTypeOf(getRouting()));
  HostTensor &sums = evaluation.result(0);
  const int64_t out = dy.columns();
  forEachRow(routing, [&](int64_t expert, int64_t row) {
    for (int64_t o = 0; o < out; ++o)
      sums[expert * out + o] += dy[row * out + o];
  });
  return success();
}

std::string GroupedSumOp::commandKind() {
  return "grouped_sum";
}
void GroupedSumOp::commandAttributes(NamedAttrList &attributes) {
  appendInteger(attributes, *this, "top_k", routingTypeOf(getRouting()).getTopK());
}
LogicalResult GroupedSumOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

} // namespace sluice
