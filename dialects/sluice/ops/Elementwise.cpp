// add, multiply and scale: the elementwise ops that residuals, cotangents and gates are made of.
#include "dialects/sluice/AdjointUtils.h"
#include "dialects/sluice/Build.h"
#include "dialects/sluice/ops/Answers.h"

using namespace mlir;

namespace sluice {

// ----- add
// -------------------------------------------------------------------------------------------------------

LogicalResult AddOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands,
                                      DictionaryAttr, OpaqueProperties, RegionRange,
                                      llvm::SmallVectorImpl<Type> &types) {
  types.push_back(operands[0].getType());
  return success();
}

LogicalResult AddOp::verify() {
  return requireShape(*this, "the second operand", getB(), dimsOf(getA().getType()),
                      "the shape of the first");
}

OpCounts AddOp::count() {
  ClassCounts counts;
  counts.add = wholeElements(*this, elementCount(getY()));
  return OpCounts::same(counts);
}

RecomputeCost AddOp::recomputeCost() {
  return RecomputeCost::Cheap;
}

LogicalResult AddOp::evaluate(Evaluation &evaluation) {
  HostTensor &y = evaluation.result(0);
  for (int64_t i = 0; i < y.size(); ++i)
    y[i] = evaluation.operand(0)[i] + evaluation.operand(1)[i];
  return success();
}

LogicalResult AddOp::buildAdjoint(AdjointBuilder &adjoint) {
  Value dy = adjoint.cotangent(0);
  for (unsigned operand = 0; operand < 2; ++operand)
    if (dy && adjoint.needed(operand))
      adjoint.setOperandCotangent(operand, dy);
  return success();
}

std::string AddOp::commandKind() {
  return "";
}
void AddOp::commandAttributes(NamedAttrList &) {}
LogicalResult AddOp::decompose(OpBuilder &builder, llvm::SmallVectorImpl<Value> &results) {
  results.push_back(
      buildMap(builder, getLoc(), {getA(), getB()},
               [](OpBuilder &b, Location loc, ValueRange v) { return Scalars(b, loc).add(v[0], v[1]); }));
  return success();
}

// ----- multiply
// --------------------------------------------------------------------------------------------------

LogicalResult MultiplyOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands,
                                           DictionaryAttr, OpaqueProperties, RegionRange,
                                           llvm::SmallVectorImpl<Type> &types) {
  types.push_back(operands[0].getType());
  return success();
}

LogicalResult MultiplyOp::verify() {
  if (broadcastsTo(dimsOf(getB().getType()), dimsOf(getA().getType())))
    return success();
  return ruleError(*this)
         << "the second operand must broadcast to the first (aligned at the last dimension, sizes "
            "equal or 1): found "
         << shapeText(getB().getType()) << " for " << shapeText(getA().getType());
}

OpCounts MultiplyOp::count() {
  ClassCounts counts;
  counts.multiply = elementCount(getY());
  return OpCounts::same(counts);
}

RecomputeCost MultiplyOp::recomputeCost() {
  return RecomputeCost::Cheap;
}

LogicalResult MultiplyOp::evaluate(Evaluation &evaluation) {
  const HostTensor &a = evaluation.operand(0), &b = evaluation.operand(1);
  HostTensor &y = evaluation.result(0);
  const llvm::SmallVector<int64_t> strides = broadcastStrides(b.shape, a.shape);
  forEachIndex(a.shape, [&](llvm::ArrayRef<int64_t> index, int64_t linear) {
    y[linear] = a[linear] * b[offsetOf(index, strides)];
  });
  return success();
}

LogicalResult MultiplyOp::buildAdjoint(AdjointBuilder &adjoint) {
  Value dy = adjoint.cotangent(0);
  if (!dy)
    return success();
  if (adjoint.needed(0))
    adjoint.setOperandCotangent(0, MultiplyOp::create(adjoint.builder, adjoint.loc, dy, getB()));
  if (adjoint.needed(1))
    adjoint.setOperandCotangent(1, reduceLike(adjoint.builder, adjoint.loc,
                                              MultiplyOp::create(adjoint.builder, adjoint.loc, dy, getA()),
                                              getB().getType()));
  return success();
}

std::string MultiplyOp::commandKind() {
  return "";
}
void MultiplyOp::commandAttributes(NamedAttrList &) {}
LogicalResult MultiplyOp::decompose(OpBuilder &builder, llvm::SmallVectorImpl<Value> &results) {
  results.push_back(
      buildMap(builder, getLoc(), {getA(), getB()}, [](OpBuilder &b, Location loc, ValueRange v) {
        return Scalars(b, loc).multiply(v[0], v[1]);
      }));
  return success();
}

// ----- scale
// -----------------------------------------------------------------------------------------------------

LogicalResult ScaleOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands,
                                        DictionaryAttr, OpaqueProperties, RegionRange,
                                        llvm::SmallVectorImpl<Type> &types) {
  types.push_back(operands[0].getType());
  return success();
}

OpCounts ScaleOp::count() {
  ClassCounts counts;
  counts.multiply = elementCount(getY());
  return OpCounts::same(counts);
}

RecomputeCost ScaleOp::recomputeCost() {
  return RecomputeCost::Cheap;
}

LogicalResult ScaleOp::evaluate(Evaluation &evaluation) {
  HostTensor &y = evaluation.result(0);
  for (int64_t i = 0; i < y.size(); ++i)
    y[i] = getFactor().convertToDouble() * evaluation.operand(0)[i];
  return success();
}

LogicalResult ScaleOp::buildAdjoint(AdjointBuilder &adjoint) {
  Value dy = adjoint.cotangent(0);
  if (dy && adjoint.needed(0))
    adjoint.setOperandCotangent(0, ScaleOp::create(adjoint.builder, adjoint.loc, dy, getFactor()));
  return success();
}

std::string ScaleOp::commandKind() {
  return "";
}
void ScaleOp::commandAttributes(NamedAttrList &) {}
LogicalResult ScaleOp::decompose(OpBuilder &builder, llvm::SmallVectorImpl<Value> &results) {
  const double factor = getFactor().convertToDouble();
  results.push_back(buildMap(builder, getLoc(), getX(), [&](OpBuilder &b, Location loc, ValueRange v) {
    return Scalars(b, loc).multiply(v[0], factor);
  }));
  return success();
}

} // namespace sluice
