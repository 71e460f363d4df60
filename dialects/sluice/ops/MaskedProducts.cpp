// Adjoints of a masked linear: masked_input_gradient, masked_weight_gradient.
#include "dialects/sluice/ops/MaskRules.h"

using namespace mlir;

namespace sluice {
namespace {

/// Each row meets every kept weight once; without a mask it would meet every weight.
OpCounts productCounts(MaskType mask, Count rows) {
  OpCounts counts;
  counts.ideal.contraction = 2 * rows * Count(mask.getKept());
  counts.dense.contraction = 2 * rows * Count(mask.matrixSize());
  return counts;
}

LogicalResult requireLast(Operation *op, llvm::StringRef name, Value value, int64_t size) {
  if (dimsOf(value.getType()).back() == Dim(size))
    return success();
  return ruleError(op) << name << " must have " << size << " columns, found " << shapeText(value.getType());
}

} // namespace

// ----- masked_input_gradient
// ---------------------------------------------------------------------------------------

LogicalResult MaskedInputGradientOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                                      ValueRange operands, DictionaryAttr, OpaqueProperties,
                                                      RegionRange, llvm::SmallVectorImpl<Type> &types) {
  if (failed(inferRank(location, "masked_input_gradient", "dy", operands[0], 2)) ||
      failed(inferRank(location, "masked_input_gradient", "weight", operands[1], 1, 2)))
    return failure();
  llvm::SmallVector<Dim> dims = dimsOf(operands[0].getType());
  dims.back() = Dim(maskTypeOf(operands[2]).getShape().back());
  types.push_back(tensorOf(dims, elementTypeOf(operands[0])));
  return success();
}

LogicalResult MaskedInputGradientOp::verify() {
  if (failed(requireMaskOrKept(*this, getMask(), getWeight(), "weight")))
    return failure();
  return requireLast(*this, "dy", getDy(), maskTypeOf(getMask()).getShape()[0]);
}

OpCounts MaskedInputGradientOp::count() {
  return productCounts(maskTypeOf(getMask()), rowCount(getDy()));
}

RecomputeCost MaskedInputGradientOp::recomputeCost() {
  return RecomputeCost::Costly;
}

LogicalResult MaskedInputGradientOp::evaluate(Evaluation &evaluation) {
  const HostTensor &dy = evaluation.operand(0), &mask = evaluation.operand(2),
                   weight = wholeOf(evaluation.operand(1), mask);
  HostTensor &dx = evaluation.result(0);
  const int64_t out = dy.columns(), in = dx.columns();
  for (int64_t row = 0; row < dy.rows(); ++row)
    for (int64_t o = 0; o < out; ++o)
      for (int64_t i = 0; i < in; ++i)
        if (mask[o * in + i] != 0)
          dx[row * in + i] += dy[row * out + o] * weight[o * in + i];
  return success();
}

std::string MaskedInputGradientOp::commandKind() {
  return "masked_gemm";
}
void MaskedInputGradientOp::commandAttributes(NamedAttrList &attributes) {
  setInteger(attributes, getContext(), "transpose_a", 0);
  setInteger(attributes, getContext(), "transpose_b", 0);
  setInteger(attributes, getContext(), "parameter_b", 1);
  setMaskedKernel(*this, getMask(), getWeight(), attributes);
}
LogicalResult MaskedInputGradientOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

// ----- masked_weight_gradient
// --------------------------------------------------------------------------------------

LogicalResult MaskedWeightGradientOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                                       ValueRange operands, DictionaryAttr attributes,
                                                       OpaqueProperties properties, RegionRange regions,
                                                       llvm::SmallVectorImpl<Type> &types) {
  Adaptor op(operands, attributes, properties, regions);
  if (op.getKeptOnly()) {
    types.push_back(RankedTensorType::get(maskTypeOf(op.getMask()).keptShape(), elementTypeOf(operands[0])));
    return success();
  }
  if (failed(inferRank(location, "masked_weight_gradient", "dy", operands[0], 2)) ||
      failed(inferRank(location, "masked_weight_gradient", "x", operands[1], 2)))
    return failure();
  types.push_back(tensorOf({dimsOf(operands[0].getType()).back(), dimsOf(operands[1].getType()).back()},
                           elementTypeOf(operands[0])));
  return success();
}

LogicalResult MaskedWeightGradientOp::verify() {
  llvm::SmallVector<Dim> dy = dimsOf(getDy().getType()), x = dimsOf(getX().getType());
  if (llvm::ArrayRef(dy).drop_back() != llvm::ArrayRef(x).drop_back())
    return ruleError(*this) << "dy " << shapeText(getDy().getType()) << " and x "
                            << shapeText(getX().getType()) << " must have the same rows";
  llvm::ArrayRef<int64_t> shape = maskTypeOf(getMask()).getShape();
  if (failed(requireLast(*this, "dy", getDy(), shape[0])) ||
      failed(requireLast(*this, "x", getX(), shape[1])))
    return failure();
  return requireMaskOrKept(*this, getMask(), getDweight(), "gradient");
}

OpCounts MaskedWeightGradientOp::count() {
  return productCounts(maskTypeOf(getMask()), rowCount(getDy()));
}

RecomputeCost MaskedWeightGradientOp::recomputeCost() {
  return RecomputeCost::Costly;
}

LogicalResult MaskedWeightGradientOp::evaluate(Evaluation &evaluation) {
  const HostTensor &dy = evaluation.operand(0), &x = evaluation.operand(1), &mask = evaluation.operand(2);
  HostTensor dweight(mask.shape);
  const int64_t out = dy.columns(), in = x.columns();
  for (int64_t row = 0; row < dy.rows(); ++row)
    for (int64_t o = 0; o < out; ++o)
      for (int64_t i = 0; i < in; ++i)
        if (mask[o * in + i] != 0)
          dweight[o * in + i] += dy[row * out + o] * x[row * in + i];
  HostTensor &result = evaluation.result(0);
  result = getKeptOnly() ? keptOf(dweight, mask, result.shape) : std::move(dweight);
  return success();
}

std::string MaskedWeightGradientOp::commandKind() {
  return "masked_weight_gradient";
}
void MaskedWeightGradientOp::commandAttributes(NamedAttrList &attributes) {
  setMaskedKernel(*this, getMask(), getDweight(), attributes);
}
LogicalResult MaskedWeightGradientOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

} // namespace sluice
