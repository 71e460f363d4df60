// linear: y = x w^T (+ bias).
#include "dialects/sluice/AdjointUtils.h"
#include "dialects/sluice/ops/MaskRules.h"

using namespace mlir;

namespace sluice {

LogicalResult LinearOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                         DictionaryAttr attributes, OpaqueProperties properties,
                                         RegionRange regions, llvm::SmallVectorImpl<Type> &types) {
  Adaptor op(operands, attributes, properties, regions);
  if (failed(inferRank(location, "linear", "x", op.getX(), 2)) ||
      (!op.getMask() && failed(inferRank(location, "linear", "weight", op.getWeight(), 2, 2))))
    return failure();
  llvm::SmallVector<Dim> dims = dimsOf(op.getX().getType());
  dims.back() = op.getMask() ? Dim(maskTypeOf(op.getMask()).getShape().front())
                             : dimsOf(op.getWeight().getType()).front();
  types.push_back(tensorOf(dims, elementTypeOf(op.getX())));
  return success();
}

LogicalResult LinearOp::verify() {
  if (failed(requireRank(*this, "x", getX(), 1)) || failed(requireRank(*this, "weight", getWeight(), 1)))
    return failure();
  const Dim in = dimsOf(getX().getType()).back();
  Dim out = dimsOf(getWeight().getType()).front();
  if (getMask()) {
    llvm::ArrayRef<int64_t> shape = maskTypeOf(getMask()).getShape();
    if (failed(requireMaskOrKept(*this, getMask(), getWeight(), "weight")))
      return failure();
    if (shape.size() != 2 || Dim(shape.back()) != in)
      return ruleError(*this) << "mask must be [out, in], where in is the last size of x "
                              << shapeText(getX().getType()) << ", found " << listText(shape);
    out = Dim(shape.front());
  } else if (failed(
                 requireShape(*this, "weight", getWeight(), {out, in},
                              "[out, in], where in is the last size of x " + shapeText(getX().getType())))) {
    return failure();
  }
  return getBias() ? requireShape(*this, "bias", getBias(), {out}, "[out]") : success();
}

OpCounts LinearOp::count() {
  ClassCounts dense;
  dense.contraction = 2 * elementCount(getX()) * sizeOf(getY(), -1);
  if (getBias())
    dense.add = elementCount(getY());
  OpCounts counts = OpCounts::same(dense);
  if (getMask())
    counts.ideal.contraction = 2 * rowCount(getX()) * Count(maskTypeOf(getMask()).getKept());
  return counts;
}

RecomputeCost LinearOp::recomputeCost() {
  return RecomputeCost::Costly;
}

LogicalResult LinearOp::evaluate(Evaluation &evaluation) {
  const HostTensor &x = evaluation.operand(0);
  const HostTensor *bias = getBias() ? &evaluation.operand(2) : nullptr;
  const HostTensor *mask = getMask() ? &evaluation.operand(getBias() ? 3 : 2) : nullptr;
  const HostTensor weight = mask ? wholeOf(evaluation.operand(1), *mask) : evaluation.operand(1);
  HostTensor &y = evaluation.result(0);
  const int64_t rows = x.rows(), in = x.columns(), out = y.columns();
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t o = 0; o < out; ++o) {
      double sum = bias ? (*bias)[o] : 0.0;
      for (int64_t i = 0; i < in; ++i)
        if (!mask || (*mask)[o * in + i] != 0)
          sum += x[row * in + i] * weight[o * in + i];
      y[row * out + o] = sum;
    }
  }
  return success();
}

LogicalResult LinearOp::buildAdjoint(AdjointBuilder &adjoint) {
  Value dy = adjoint.cotangent(0);
  if (!dy)
    return success();
  if (getBias() && adjoint.needed(2))
    adjoint.setOperandCotangent(2, reduceLike(adjoint.builder, adjoint.loc, dy, getBias().getType()));
  if (getMask()) {
    if (adjoint.needed(0))
      adjoint.setOperandCotangent(
          0, MaskedInputGradientOp::create(adjoint.builder, adjoint.loc, dy, getWeight(), getMask()));
    if (adjoint.needed(1))
      adjoint.setOperandCotangent(
          1, MaskedWeightGradientOp::create(adjoint.builder, adjoint.loc, dy, getX(), getMask()));
    return success();
  }
  const int64_t leadingAxes = tensorTypeOf(getX()).getRank() - 1;
  const std::string leading =
      leadingAxes == 2 ? "bs" : llvm::StringRef("abcdefgh").take_front(leadingAxes).str();
  if (static_cast<int64_t>(leading.size()) != leadingAxes)
    return ruleError(*this) << "x must have at most nine dimensions, found " << shapeText(getX().getType());
  if (adjoint.needed(0))
    adjoint.setOperandCotangent(0, ContractOp::create(adjoint.builder, adjoint.loc, dy, getWeight(),
                                                      leading + "o,oi->" + leading + "i"));
  if (adjoint.needed(1))
    adjoint.setOperandCotangent(
        1, ContractOp::create(adjoint.builder, adjoint.loc, dy, getX(), leading + "o," + leading + "i->oi"));
  return success();
}

std::string LinearOp::commandKind() {
  return getMask() ? "masked_gemm" : "gemm";
}

void LinearOp::commandAttributes(NamedAttrList &attributes) {
  setInteger(attributes, getContext(), "transpose_a", 0);
  setInteger(attributes, getContext(), "transpose_b", 1);
  // A weight is a parameter (inside an outlined body: an argument) unless other ops computed it.
  Operation *source = getWeight().getDefiningOp();
  setInteger(attributes, getContext(), "parameter_b", !source || isa<ReadOp, ParamOp>(source));
  if (getMask())
    setMaskedKernel(*this, getMask(), getWeight(), attributes);
}

LogicalResult LinearOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

} // namespace sluice
