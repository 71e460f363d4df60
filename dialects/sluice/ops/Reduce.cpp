// reduce and broadcast: the two directions of repeating along axes.
#include "dialects/sluice/AdjointUtils.h"
#include "dialects/sluice/Build.h"
#include "dialects/sluice/ops/Answers.h"

#include <cmath>

using namespace mlir;

namespace sluice {

// ----- reduce
// ----------------------------------------------------------------------------------------------------

LogicalResult ReduceOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                         DictionaryAttr attributes, OpaqueProperties properties,
                                         RegionRange regions, llvm::SmallVectorImpl<Type> &types) {
  Adaptor op(operands, attributes, properties, regions);
  llvm::SmallVector<Dim> dims = dimsOf(op.getX().getType());
  for (int64_t axis : op.getAxes()) {
    if (axis < 0 || axis >= static_cast<int64_t>(dims.size()))
      return emitOptionalError(location, "'sluice.reduce' op axes must be below the operand's rank ",
                               dims.size(), ", found ", axis);
    dims[axis] = Dim(1);
  }
  types.push_back(tensorOf(dims, elementTypeOf(op.getX())));
  return success();
}

LogicalResult ReduceOp::verify() {
  if (getKind() != "sum" && getKind() != "max")
    return ruleError(*this) << "kind must be sum or max, found '" << getKind() << "'";
  for (size_t i = 1; i < getAxes().size(); ++i)
    if (getAxes()[i - 1] >= getAxes()[i])
      return ruleError(*this) << "axes must increase, found " << listText(getAxes());
  return success();
}

OpCounts ReduceOp::count() {
  ClassCounts counts;
  // One element a result is no sum: the value is handed on.
  if (elementCount(getX()) == elementCount(getY()))
    return {};
  (isSum() ? counts.add : counts.compare) = elementCount(getX());
  return OpCounts::same(counts);
}

RecomputeCost ReduceOp::recomputeCost() {
  return RecomputeCost::Cheap;
}

LogicalResult ReduceOp::evaluate(Evaluation &evaluation) {
  const HostTensor &x = evaluation.operand(0);
  HostTensor &y = evaluation.result(0);
  if (!isSum())
    y.values.assign(y.values.size(), -INFINITY);
  const llvm::SmallVector<int64_t> strides = broadcastStrides(y.shape, x.shape);
  forEachIndex(x.shape, [&](llvm::ArrayRef<int64_t> index, int64_t linear) {
    double &target = y[offsetOf(index, strides)];
    if (isSum())
      target += x[linear];
    else
      target = std::isnan(x[linear]) || std::isnan(target) ? std::nan("") : std::fmax(target, x[linear]);
  });
  return success();
}

llvm::ArrayRef<int64_t> ReduceOp::adjointReadsOperands() {
  static constexpr int64_t operand[] = {0};
  return isSum() ? llvm::ArrayRef<int64_t>() : llvm::ArrayRef<int64_t>(operand);
}
llvm::ArrayRef<int64_t> ReduceOp::adjointReadsResults() {
  return adjointReadsOperands();
}

LogicalResult ReduceOp::buildAdjoint(AdjointBuilder &adjoint) {
  Value dy = adjoint.cotangent(0);
  if (!dy || !adjoint.needed(0))
    return success();
  if (isSum()) {
    adjoint.setOperandCotangent(
        0, BroadcastOp::create(adjoint.builder, adjoint.loc, dy, tensorTypeOf(getX()).getShape()));
    return success();
  }
  // Every element that attains the maximum gets the cotangent.
  auto body = [](OpBuilder &builder, Location loc, ValueRange s) -> Value {
    Scalars scalars(builder, loc);
    return scalars.select(scalars.equal(s[0], s[1]), s[2], scalars.constant(0.0, s[2].getType()));
  };
  adjoint.setOperandCotangent(0, buildMap(adjoint.builder, adjoint.loc, {getX(), getY(), dy}, body));
  return success();
}

// A primitive, like map.
std::string ReduceOp::commandKind() {
  return "";
}
void ReduceOp::commandAttributes(NamedAttrList &) {}
LogicalResult ReduceOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

// ----- broadcast
// -------------------------------------------------------------------------------------------------

LogicalResult BroadcastOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                            ValueRange operands, DictionaryAttr attributes,
                                            OpaqueProperties properties, RegionRange regions,
                                            llvm::SmallVectorImpl<Type> &types) {
  Adaptor op(operands, attributes, properties, regions);
  llvm::SmallVector<Dim> from = dimsOf(op.getX().getType()), to;
  const int64_t lead = static_cast<int64_t>(op.getShape().size()) - static_cast<int64_t>(from.size());
  for (auto [axis, size] : llvm::enumerate(op.getShape())) {
    const int64_t source = static_cast<int64_t>(axis) - lead;
    if (size < -1 || (size == -1 && (source < 0 || lead < 0)))
      return emitOptionalError(location, "'sluice.broadcast' op size ", size, " of axis ", axis,
                               " names no size of the operand ", shapeText(op.getX().getType()));
    to.push_back(size == -1 ? from[source] : Dim(size));
  }
  types.push_back(tensorOf(to, elementTypeOf(op.getX())));
  return success();
}

LogicalResult BroadcastOp::verify() {
  if (!broadcastsTo(dimsOf(getX().getType()), dimsOf(getY().getType())))
    return ruleError(*this)
           << "operand must have the result's sizes or 1, aligned at the last dimension: found "
           << shapeText(getX().getType()) << " for " << shapeText(getY().getType());
  return success();
}

OpCounts BroadcastOp::count() {
  return {};
}
RecomputeCost BroadcastOp::recomputeCost() {
  return RecomputeCost::Free;
}

LogicalResult BroadcastOp::evaluate(Evaluation &evaluation) {
  const HostTensor &x = evaluation.operand(0);
  HostTensor &y = evaluation.result(0);
  const llvm::SmallVector<int64_t> strides = broadcastStrides(x.shape, y.shape);
  forEachIndex(y.shape, [&](llvm::ArrayRef<int64_t> index, int64_t linear) {
    y[linear] = x[offsetOf(index, strides)];
  });
  return success();
}

LogicalResult BroadcastOp::buildAdjoint(AdjointBuilder &adjoint) {
  Value dy = adjoint.cotangent(0);
  if (dy && adjoint.needed(0))
    adjoint.setOperandCotangent(0, reduceLike(adjoint.builder, adjoint.loc, dy, getX().getType()));
  return success();
}

// A primitive, like map.
std::string BroadcastOp::commandKind() {
  return "";
}
void BroadcastOp::commandAttributes(NamedAttrList &) {}
LogicalResult BroadcastOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

} // namespace sluice
