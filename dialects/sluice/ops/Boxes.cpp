// slice, pad and concat: boxes of elements moved without arithmetic.
#include "dialects/sluice/AdjointUtils.h"
#include "dialects/sluice/ops/Answers.h"

using namespace mlir;

namespace sluice {

// ----- slice
// -----------------------------------------------------------------------------------------------------

LogicalResult SliceOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                        DictionaryAttr attributes, OpaqueProperties properties,
                                        RegionRange regions, llvm::SmallVectorImpl<Type> &types) {
  Adaptor op(operands, attributes, properties, regions);
  llvm::SmallVector<Dim> dims = dimsOf(op.getX().getType());
  if (op.getOffsets().size() != dims.size() || op.getSizes().size() != dims.size())
    return emitOptionalError(location, "'sluice.slice' op needs an offset and a size for each of the ",
                             dims.size(), " dimensions, found ", listText(op.getOffsets()), " and ",
                             listText(op.getSizes()));
  for (auto [dim, offset, size] : llvm::zip(dims, op.getOffsets(), op.getSizes())) {
    const bool whole = size == -1 && offset == 0;
    const bool inside =
        offset >= 0 && (size == -1 ? dim.isStatic() && offset <= dim.size
                                   : size >= 0 && dim.isStatic() && offset + size <= dim.size);
    if (!whole && !inside)
      return emitOptionalError(location, "'sluice.slice' op box must lie inside ",
                               shapeText(op.getX().getType()), ", found offsets ", listText(op.getOffsets()),
                               " and sizes ", listText(op.getSizes()));
    if (!whole)
      dim = Dim(size == -1 ? dim.size - offset : size);
  }
  types.push_back(tensorOf(dims, elementTypeOf(op.getX())));
  return success();
}

LogicalResult SliceOp::verify() {
  return success();
}
OpCounts SliceOp::count() {
  return {};
}
RecomputeCost SliceOp::recomputeCost() {
  return RecomputeCost::Free;
}

LogicalResult SliceOp::evaluate(Evaluation &evaluation) {
  const HostTensor &x = evaluation.operand(0);
  HostTensor &y = evaluation.result(0);
  const llvm::SmallVector<int64_t> strides = stridesOf(x.shape);
  const int64_t start = offsetOf(getOffsets(), strides);
  forEachIndex(y.shape, [&](llvm::ArrayRef<int64_t> index, int64_t linear) {
    y[linear] = x[start + offsetOf(index, strides)];
  });
  return success();
}

LogicalResult SliceOp::buildAdjoint(AdjointBuilder &adjoint) {
  Value dy = adjoint.cotangent(0);
  if (dy && adjoint.needed(0))
    adjoint.setOperandCotangent(
        0, PadOp::create(adjoint.builder, adjoint.loc, dy, getOffsets(), tensorTypeOf(getX()).getShape()));
  return success();
}

std::string SliceOp::commandKind() {
  return "slice";
}
void SliceOp::commandAttributes(NamedAttrList &attributes) {
  setText(attributes, getContext(), "offsets", commaText(getOffsets()));
}
LogicalResult SliceOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

// ----- pad
// -------------------------------------------------------------------------------------------------------

LogicalResult PadOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                      DictionaryAttr attributes, OpaqueProperties properties,
                                      RegionRange regions, llvm::SmallVectorImpl<Type> &types) {
  Adaptor op(operands, attributes, properties, regions);
  llvm::SmallVector<Dim> dims = dimsOf(op.getX().getType());
  if (op.getOffsets().size() != dims.size() || op.getShape().size() != dims.size())
    return emitOptionalError(location, "'sluice.pad' op needs an offset and a size for each of the ",
                             dims.size(), " dimensions, found ", listText(op.getOffsets()), " and ",
                             listText(op.getShape()));
  for (auto [dim, offset, size] : llvm::zip(dims, op.getOffsets(), op.getShape())) {
    if (size == -1 && offset == 0)
      continue;
    if (offset < 0 || !dim.isStatic() || offset + dim.size > size)
      return emitOptionalError(location, "'sluice.pad' op operand ", shapeText(op.getX().getType()),
                               " must fit into ", listText(op.getShape()), " at ", listText(op.getOffsets()));
    dim = Dim(size);
  }
  types.push_back(tensorOf(dims, elementTypeOf(op.getX())));
  return success();
}

LogicalResult PadOp::verify() {
  return success();
}
OpCounts PadOp::count() {
  return {};
}
RecomputeCost PadOp::recomputeCost() {
  return RecomputeCost::Free;
}

LogicalResult PadOp::evaluate(Evaluation &evaluation) {
  const HostTensor &x = evaluation.operand(0);
  HostTensor &y = evaluation.result(0);
  const llvm::SmallVector<int64_t> strides = stridesOf(y.shape);
  const int64_t start = offsetOf(getOffsets(), strides);
  forEachIndex(x.shape, [&](llvm::ArrayRef<int64_t> index, int64_t linear) {
    y[start + offsetOf(index, strides)] = x[linear];
  });
  return success();
}

LogicalResult PadOp::buildAdjoint(AdjointBuilder &adjoint) {
  Value dy = adjoint.cotangent(0);
  if (dy && adjoint.needed(0))
    adjoint.setOperandCotangent(
        0, SliceOp::create(adjoint.builder, adjoint.loc, dy, getOffsets(), tensorTypeOf(getX()).getShape()));
  return success();
}

std::string PadOp::commandKind() {
  return "";
}
void PadOp::commandAttributes(NamedAttrList &) {}

LogicalResult PadOp::decompose(OpBuilder &builder, llvm::SmallVectorImpl<Value> &results) {
  // Axis by axis: zeros before, the tensor, zeros behind.
  Value value = getX();
  for (auto [axis, offset, size] : llvm::enumerate(getOffsets(), tensorTypeOf(getY()).getShape())) {
    llvm::SmallVector<int64_t> shape(tensorTypeOf(value).getShape());
    const int64_t behind = size - offset - shape[axis];
    llvm::SmallVector<Value> parts;
    auto addZeros = [&](int64_t count) {
      shape[axis] = count;
      if (count > 0)
        parts.push_back(zerosLike(builder, getLoc(), RankedTensorType::get(shape, elementTypeOf(value))));
    };
    addZeros(offset);
    parts.push_back(value);
    addZeros(behind);
    if (parts.size() > 1)
      value = ConcatOp::create(builder, getLoc(), parts, static_cast<int64_t>(axis));
  }
  results.push_back(value);
  return success();
}

// ----- concat
// ----------------------------------------------------------------------------------------------------

LogicalResult ConcatOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                         DictionaryAttr attributes, OpaqueProperties properties,
                                         RegionRange regions, llvm::SmallVectorImpl<Type> &types) {
  Adaptor op(operands, attributes, properties, regions);
  if (operands.empty())
    return emitOptionalError(location, "'sluice.concat' op needs at least one operand");
  llvm::SmallVector<Dim> dims = dimsOf(operands.front().getType());
  const int64_t axis = static_cast<int64_t>(op.getAxis());
  if (axis < 0 || axis >= static_cast<int64_t>(dims.size()))
    return emitOptionalError(location, "'sluice.concat' op axis must be below the operands' rank ",
                             dims.size(), ", found ", axis);
  int64_t total = 0;
  for (Value operand : operands) {
    llvm::SmallVector<Dim> own = dimsOf(operand.getType());
    const bool fits = own.size() == dims.size() && own[axis].isStatic();
    if (fits) {
      total += own[axis].size;
      own[axis] = dims[axis];
    }
    if (!fits || own != dims)
      return emitOptionalError(location, "'sluice.concat' op operands must agree in all dimensions but axis ",
                               axis, ", which must be a number: found ",
                               shapeText(operands.front().getType()), " and ", shapeText(operand.getType()));
  }
  dims[axis] = Dim(total);
  types.push_back(tensorOf(dims, elementTypeOf(operands.front())));
  return success();
}

LogicalResult ConcatOp::verify() {
  return success();
}
OpCounts ConcatOp::count() {
  return {};
}
RecomputeCost ConcatOp::recomputeCost() {
  return RecomputeCost::Free;
}

LogicalResult ConcatOp::evaluate(Evaluation &evaluation) {
  HostTensor &y = evaluation.result(0);
  const llvm::SmallVector<int64_t> strides = stridesOf(y.shape);
  int64_t start = 0;
  for (unsigned i = 0; i < getInputs().size(); ++i) {
    const HostTensor &x = evaluation.operand(i);
    forEachIndex(x.shape, [&](llvm::ArrayRef<int64_t> index, int64_t linear) {
      y[start + offsetOf(index, strides)] = x[linear];
    });
    start += x.shape[getAxis()] * strides[getAxis()];
  }
  return success();
}

LogicalResult ConcatOp::buildAdjoint(AdjointBuilder &adjoint) {
  Value dy = adjoint.cotangent(0);
  if (!dy)
    return success();
  llvm::SmallVector<int64_t> offsets(tensorTypeOf(getY()).getRank(), 0);
  for (auto [index, input] : llvm::enumerate(getInputs())) {
    llvm::ArrayRef<int64_t> shape = tensorTypeOf(input).getShape();
    if (adjoint.needed(index))
      adjoint.setOperandCotangent(index, SliceOp::create(adjoint.builder, adjoint.loc, dy, offsets, shape));
    offsets[getAxis()] += shape[getAxis()];
  }
  return success();
}

std::string ConcatOp::commandKind() {
  return "concat";
}
void ConcatOp::commandAttributes(NamedAttrList &attributes) {
  setInteger(attributes, getContext(), "axis", static_cast<int64_t>(getAxis()));
}
LogicalResult ConcatOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

} // namespace sluice
