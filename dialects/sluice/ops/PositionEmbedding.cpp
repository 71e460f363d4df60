// position_embedding: adds the first rows of a learned table, one a position.
#include "dialects/sluice/AdjointUtils.h"
#include "dialects/sluice/Build.h"
#include "dialects/sluice/ops/Answers.h"

using namespace mlir;

namespace sluice {
namespace {

/// A table shorter than the sequence has a count only.
LogicalResult requirePositions(Operation *op, int64_t sequence, int64_t positions) {
  if (sequence <= positions)
    return success();
  return ruleError(op) << "a sequence of " << sequence << " is longer than the position table of "
                       << positions << " rows: it can be counted, not run; bind a shorter seq";
}

} // namespace

// ----- position_embedding
// --------------------------------------------------------------------------------------

LogicalResult PositionEmbeddingOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                                    ValueRange operands, DictionaryAttr, OpaqueProperties,
                                                    RegionRange, llvm::SmallVectorImpl<Type> &types) {
  if (failed(inferRank(location, "position_embedding", "x", operands[0], 3, 3)))
    return failure();
  types.push_back(operands[0].getType());
  return success();
}

LogicalResult PositionEmbeddingOp::verify() {
  llvm::SmallVector<Dim> table = dimsOf(getTable().getType());
  const Dim width = dimsOf(getX().getType()).back();
  if (table.size() != 2 || !table[0].isStatic() || table[1] != width)
    return ruleError(*this) << "table must be [positions, "
                            << (width.isStatic() ? std::to_string(width.size) : width.name) << "] for x "
                            << shapeText(getX().getType()) << ", found " << shapeText(getTable().getType());
  return success();
}

OpCounts PositionEmbeddingOp::count() {
  ClassCounts counts;
  counts.add = elementCount(getX());
  return OpCounts::same(counts);
}

RecomputeCost PositionEmbeddingOp::recomputeCost() {
  return RecomputeCost::Cheap;
}

LogicalResult PositionEmbeddingOp::evaluate(Evaluation &evaluation) {
  const HostTensor &x = evaluation.operand(0), &table = evaluation.operand(1);
  HostTensor &y = evaluation.result(0);
  if (failed(requirePositions(*this, x.shape[1], table.shape[0])))
    return failure();
  const int64_t period = x.shape[1] * x.shape[2];
  for (int64_t i = 0; i < x.size(); ++i)
    y[i] = x[i] + table[i % period];
  return success();
}

LogicalResult PositionEmbeddingOp::buildAdjoint(AdjointBuilder &adjoint) {
  Value dy = adjoint.cotangent(0);
  if (!dy)
    return success();
  if (adjoint.needed(0))
    adjoint.setOperandCotangent(0, dy);
  if (adjoint.needed(1))
    adjoint.setOperandCotangent(1,
                                PositionEmbeddingGradientOp::create(adjoint.builder, adjoint.loc, dy,
                                                                    tensorTypeOf(getTable()).getDimSize(0)));
  return success();
}

std::string PositionEmbeddingOp::commandKind() {
  return "";
}
void PositionEmbeddingOp::commandAttributes(NamedAttrList &) {}

LogicalResult PositionEmbeddingOp::decompose(OpBuilder &builder, llvm::SmallVectorImpl<Value> &results) {
  auto x = tensorTypeOf(getX()), table = tensorTypeOf(getTable());
  if (x.getDimSize(1) > table.getDimSize(0))
    return failure(); // reported by check-lowering
  Value rows = getTable();
  if (x.getDimSize(1) != table.getDimSize(0))
    rows = SliceOp::create(builder, getLoc(), rows, llvm::ArrayRef<int64_t>{0, 0},
                           llvm::ArrayRef<int64_t>{x.getDimSize(1), -1});
  results.push_back(
      buildMap(builder, getLoc(), {getX(), rows}, [](OpBuilder &inner, Location at, ValueRange s) {
        return Scalars(inner, at).add(s[0], s[1]);
      }));
  return success();
}

// ----- position_embedding_gradient
// -----------------------------------------------------------------------------

LogicalResult PositionEmbeddingGradientOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                                            ValueRange operands, DictionaryAttr attributes,
                                                            OpaqueProperties properties, RegionRange regions,
                                                            llvm::SmallVectorImpl<Type> &types) {
  Adaptor op(operands, attributes, properties, regions);
  if (failed(inferRank(location, "position_embedding_gradient", "dy", op.getDy(), 3, 3)))
    return failure();
  types.push_back(
      tensorOf({Dim(static_cast<int64_t>(op.getPositions())), dimsOf(op.getDy().getType()).back()},
               elementTypeOf(op.getDy())));
  return success();
}

OpCounts PositionEmbeddingGradientOp::count() {
  ClassCounts counts;
  counts.add = elementCount(getDy());
  return OpCounts::same(counts);
}

RecomputeCost PositionEmbeddingGradientOp::recomputeCost() {
  return RecomputeCost::Cheap;
}

LogicalResult PositionEmbeddingGradientOp::evaluate(Evaluation &evaluation) {
  const HostTensor &dy = evaluation.operand(0);
  if (failed(requirePositions(*this, dy.shape[1], static_cast<int64_t>(getPositions()))))
    return failure();
  const int64_t period = dy.shape[1] * dy.shape[2];
  for (int64_t i = 0; i < dy.size(); ++i)
    evaluation.result(0)[i % period] += dy[i];
  return success();
}

std::string PositionEmbeddingGradientOp::commandKind() {
  return "";
}
void PositionEmbeddingGradientOp::commandAttributes(NamedAttrList &) {}

LogicalResult PositionEmbeddingGradientOp::decompose(OpBuilder &builder,
                                                     llvm::SmallVectorImpl<Value> &results) {
  auto dy = tensorTypeOf(getDy()), table = tensorTypeOf(getDtable());
  if (dy.getDimSize(1) > table.getDimSize(0))
    return failure(); // reported by check-lowering
  auto rows = RankedTensorType::get(dy.getShape().drop_front(), dy.getElementType());
  Value sum = reduceLike(builder, getLoc(), getDy(), rows);
  if (rows != table)
    sum = PadOp::create(builder, getLoc(), sum, llvm::ArrayRef<int64_t>{0, 0}, table.getShape());
  results.push_back(sum);
  return success();
}

} // namespace sluice
