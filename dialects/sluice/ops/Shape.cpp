// reshape and transpose: the same elements under another shape or order.
#include "dialects/sluice/AdjointUtils.h"
#include "dialects/sluice/ops/Answers.h"

using namespace mlir;

namespace sluice {

// ----- reshape
// ---------------------------------------------------------------------------------------------------

namespace {

/// The number that multiplies the names of a product, and the rest: "6*batch" is (6, "batch").
std::pair<int64_t, Dim> splitNumber(const Dim &product) {
  if (product.isStatic())
    return {product.size, Dim(1)};
  auto [number, names] = llvm::StringRef(product.name).split('*');
  int64_t value = 1;
  if (number.getAsInteger(10, value))
    return {1, product};
  return {value, Dim(names.str())};
}

} // namespace

LogicalResult ReshapeOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                          ValueRange operands, DictionaryAttr attributes,
                                          OpaqueProperties properties, RegionRange regions,
                                          llvm::SmallVectorImpl<Type> &types) {
  Adaptor op(operands, attributes, properties, regions);
  // Axes kept as they are drop out of the product on both sides.
  llvm::SmallVector<Dim> own = dimsOf(op.getX().getType()), divided = own, dims;
  int64_t known = 1, rest = -1;
  for (auto [axis, size] : llvm::enumerate(op.getShape())) {
    if (size == -2 && axis < own.size()) {
      dims.push_back(own[axis]);
      divided[axis] = Dim(1);
      continue;
    }
    dims.emplace_back(size);
    if (size == -1 && rest == -1)
      rest = static_cast<int64_t>(axis);
    else if (size < 0)
      return emitOptionalError(location,
                               "'sluice.reshape' op sizes must not be negative, one may be -1 and those of "
                               "axes that the operand has may be -2, found ",
                               listText(op.getShape()));
    else
      known *= size;
  }
  auto [number, names] = splitNumber(productOf(divided));
  const bool fits = rest == -1 ? number == known && names == Dim(1) : known != 0 && number % known == 0;
  if (!fits)
    return emitOptionalError(location, "'sluice.reshape' op must keep the number of elements: found ",
                             shapeText(op.getX().getType()), " for ", listText(op.getShape()));
  if (rest != -1)
    dims[rest] = productOf({Dim(number / known), names});
  types.push_back(tensorOf(dims, elementTypeOf(op.getX())));
  return success();
}

LogicalResult ReshapeOp::verify() {
  return success();
}
OpCounts ReshapeOp::count() {
  return {};
}
RecomputeCost ReshapeOp::recomputeCost() {
  return RecomputeCost::Free;
}

LogicalResult ReshapeOp::evaluate(Evaluation &evaluation) {
  evaluation.result(0).values = evaluation.operand(0).values;
  return success();
}

LogicalResult ReshapeOp::buildAdjoint(AdjointBuilder &adjoint) {
  Value dy = adjoint.cotangent(0);
  if (dy && adjoint.needed(0))
    adjoint.setOperandCotangent(0, reshapeLike(adjoint.builder, adjoint.loc, dy, getX().getType()));
  return success();
}

std::string ReshapeOp::commandKind() {
  return "copy";
}
void ReshapeOp::commandAttributes(NamedAttrList &) {}
LogicalResult ReshapeOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

// ----- transpose
// -------------------------------------------------------------------------------------------------

LogicalResult TransposeOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                            ValueRange operands, DictionaryAttr attributes,
                                            OpaqueProperties properties, RegionRange regions,
                                            llvm::SmallVectorImpl<Type> &types) {
  Adaptor op(operands, attributes, properties, regions);
  llvm::SmallVector<Dim> from = dimsOf(op.getX().getType()), to;
  llvm::SmallVector<int64_t> sorted(op.getPermutation());
  llvm::sort(sorted);
  if (!llvm::equal(sorted, llvm::seq<int64_t>(0, static_cast<int64_t>(from.size()))))
    return emitOptionalError(location, "'sluice.transpose' op permutation must name each of the ",
                             from.size(), " axes once, found ", listText(op.getPermutation()));
  for (int64_t axis : op.getPermutation())
    to.push_back(from[axis]);
  types.push_back(tensorOf(to, elementTypeOf(op.getX())));
  return success();
}

LogicalResult TransposeOp::verify() {
  return success();
}
OpCounts TransposeOp::count() {
  return {};
}
RecomputeCost TransposeOp::recomputeCost() {
  return RecomputeCost::Free;
}

LogicalResult TransposeOp::evaluate(Evaluation &evaluation) {
  const HostTensor &x = evaluation.operand(0);
  HostTensor &y = evaluation.result(0);
  const llvm::SmallVector<int64_t> own = stridesOf(x.shape);
  llvm::SmallVector<int64_t> strides;
  for (int64_t axis : getPermutation())
    strides.push_back(own[axis]);
  forEachIndex(y.shape, [&](llvm::ArrayRef<int64_t> index, int64_t linear) {
    y[linear] = x[offsetOf(index, strides)];
  });
  return success();
}

LogicalResult TransposeOp::buildAdjoint(AdjointBuilder &adjoint) {
  Value dy = adjoint.cotangent(0);
  if (!dy || !adjoint.needed(0))
    return success();
  llvm::SmallVector<int64_t> inverse(getPermutation().size());
  for (auto [axis, source] : llvm::enumerate(getPermutation()))
    inverse[source] = static_cast<int64_t>(axis);
  adjoint.setOperandCotangent(0, TransposeOp::create(adjoint.builder, adjoint.loc, dy, inverse));
  return success();
}

std::string TransposeOp::commandKind() {
  return "transpose";
}
void TransposeOp::commandAttributes(NamedAttrList &attributes) {
  setText(attributes, getContext(), "permutation", commaText(getPermutation()));
}
LogicalResult TransposeOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

} // namespace sluice
