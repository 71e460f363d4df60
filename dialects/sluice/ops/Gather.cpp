// embedding and gather with their adjoints: rows by ids, and sums over each id's rows.
#include "dialects/sluice/ops/Answers.h"

using namespace mlir;

namespace sluice {
namespace {

/// y[i] = x[ids[i]], rows of `width` elements. Errors: an id outside the rows.
LogicalResult copyRows(Operation *op, const HostTensor &ids, const HostTensor &x, HostTensor &y) {
  const int64_t rows = x.shape.front(), width = rows ? x.size() / rows : 0;
  for (int64_t i = 0; i < ids.size(); ++i) {
    const int64_t row = static_cast<int64_t>(ids[i]);
    if (row < 0 || row >= rows)
      return ruleError(op) << "id " << row << " at position " << i << " must be below " << rows;
    for (int64_t j = 0; j < width; ++j)
      y[i * width + j] = x[row * width + j];
  }
  return success();
}

/// dx[ids[i]] += dy[i] in increasing i.
LogicalResult addRows(Operation *op, const HostTensor &ids, const HostTensor &dy, HostTensor &dx) {
  const int64_t rows = dx.shape.front(), width = rows ? dx.size() / rows : 0;
  for (int64_t i = 0; i < ids.size(); ++i) {
    const int64_t row = static_cast<int64_t>(ids[i]);
    if (row < 0 || row >= rows)
      return ruleError(op) << "id " << row << " at position " << i << " must be below " << rows;
    for (int64_t j = 0; j < width; ++j)
      dx[row * width + j] += dy[i * width + j];
  }
  return success();
}

/// One index operation a row.
OpCounts lookups(Value ids) {
  ClassCounts counts;
  counts.index = elementCount(ids);
  return OpCounts::same(counts);
}

/// One index operation a row, one addition an element.
OpCounts rowSums(Value ids, Value dy) {
  OpCounts counts = lookups(ids);
  counts.ideal.add = counts.dense.add = elementCount(dy);
  return counts;
}

} // namespace

// ----- embedding
// -------------------------------------------------------------------------------------------------

LogicalResult EmbeddingOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                            ValueRange operands, DictionaryAttr attributes,
                                            OpaqueProperties properties, RegionRange regions,
                                            llvm::SmallVectorImpl<Type> &types) {
  Adaptor op(operands, attributes, properties, regions);
  if (failed(inferRank(location, "embedding", "table", op.getTable(), 2, 2)))
    return failure();
  llvm::SmallVector<Dim> dims = dimsOf(op.getIds().getType());
  dims.push_back(dimsOf(op.getTable().getType()).back());
  types.push_back(tensorOf(dims, elementTypeOf(op.getTable())));
  return success();
}

LogicalResult EmbeddingOp::verify() {
  if (!tensorTypeOf(getTable()).hasStaticShape())
    return ruleError(*this) << "table must be [vocabulary, width] in numbers, found "
                            << shapeText(getTable().getType());
  return requireRank(*this, "ids", getIds(), 1);
}

OpCounts EmbeddingOp::count() {
  return lookups(getIds());
}
RecomputeCost EmbeddingOp::recomputeCost() {
  return RecomputeCost::Free;
}
LogicalResult EmbeddingOp::evaluate(Evaluation &evaluation) {
  return copyRows(*this, evaluation.operand(0), evaluation.operand(1), evaluation.result(0));
}

LogicalResult EmbeddingOp::buildAdjoint(AdjointBuilder &adjoint) {
  Value dy = adjoint.cotangent(0);
  if (dy && adjoint.needed(1))
    adjoint.setOperandCotangent(1, EmbeddingGradientOp::create(adjoint.builder, adjoint.loc, getIds(), dy,
                                                               tensorTypeOf(getTable()).getDimSize(0)));
  return success();
}

std::string EmbeddingOp::commandKind() {
  return "embedding";
}
void EmbeddingOp::commandAttributes(NamedAttrList &) {}
LogicalResult EmbeddingOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

// ----- embedding_gradient
// ----------------------------------------------------------------------------------------

LogicalResult EmbeddingGradientOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                                    ValueRange operands, DictionaryAttr attributes,
                                                    OpaqueProperties properties, RegionRange regions,
                                                    llvm::SmallVectorImpl<Type> &types) {
  Adaptor op(operands, attributes, properties, regions);
  if (failed(inferRank(location, "embedding_gradient", "dy", op.getDy(), 2)))
    return failure();
  types.push_back(
      tensorOf({Dim(static_cast<int64_t>(op.getVocabulary())), dimsOf(op.getDy().getType()).back()},
               elementTypeOf(op.getDy())));
  return success();
}

OpCounts EmbeddingGradientOp::count() {
  return rowSums(getIds(), getDy());
}
RecomputeCost EmbeddingGradientOp::recomputeCost() {
  return RecomputeCost::Cheap;
}
LogicalResult EmbeddingGradientOp::evaluate(Evaluation &evaluation) {
  return addRows(*this, evaluation.operand(0), evaluation.operand(1), evaluation.result(0));
}
std::string EmbeddingGradientOp::commandKind() {
  return "embedding_gradient";
}
void EmbeddingGradientOp::commandAttributes(NamedAttrList &) {}
LogicalResult EmbeddingGradientOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

// ----- gather
// ----------------------------------------------------------------------------------------------------

LogicalResult GatherOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                         DictionaryAttr attributes, OpaqueProperties properties,
                                         RegionRange regions, llvm::SmallVectorImpl<Type> &types) {
  Adaptor op(operands, attributes, properties, regions);
  if (failed(inferRank(location, "gather", "x", op.getX(), 1)) ||
      failed(inferRank(location, "gather", "ids", op.getIds(), 1, 1)))
    return failure();
  llvm::SmallVector<Dim> dims = dimsOf(op.getX().getType());
  dims.front() = dimsOf(op.getIds().getType()).front();
  types.push_back(tensorOf(dims, elementTypeOf(op.getX())));
  return success();
}

LogicalResult GatherOp::verify() {
  return success();
}
OpCounts GatherOp::count() {
  return lookups(getIds());
}
RecomputeCost GatherOp::recomputeCost() {
  return RecomputeCost::Free;
}
LogicalResult GatherOp::evaluate(Evaluation &evaluation) {
  return copyRows(*this, evaluation.operand(1), evaluation.operand(0), evaluation.result(0));
}

LogicalResult GatherOp::buildAdjoint(AdjointBuilder &adjoint) {
  Value dy = adjoint.cotangent(0);
  if (dy && adjoint.needed(0))
    adjoint.setOperandCotangent(0, GatherGradientOp::create(adjoint.builder, adjoint.loc, getIds(), dy,
                                                            tensorTypeOf(getX()).getDimSize(0)));
  return success();
}

std::string GatherOp::commandKind() {
  return "gather";
}
void GatherOp::commandAttributes(NamedAttrList &) {}
LogicalResult GatherOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

// ----- gather_gradient
// -------------------------------------------------------------------------------------------

LogicalResult GatherGradientOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                                 ValueRange operands, DictionaryAttr attributes,
                                                 OpaqueProperties properties, RegionRange regions,
                                                 llvm::SmallVectorImpl<Type> &types) {
  Adaptor op(operands, attributes, properties, regions);
  if (failed(inferRank(location, "gather_gradient", "dy", op.getDy(), 1)))
    return failure();
  llvm::SmallVector<Dim> dims = dimsOf(op.getDy().getType());
  dims.front() = Dim(static_cast<int64_t>(op.getRows()));
  types.push_back(tensorOf(dims, elementTypeOf(op.getDy())));
  return success();
}

OpCounts GatherGradientOp::count() {
  return rowSums(getIds(), getDy());
}
RecomputeCost GatherGradientOp::recomputeCost() {
  return RecomputeCost::Cheap;
}
LogicalResult GatherGradientOp::evaluate(Evaluation &evaluation) {
  return addRows(*this, evaluation.operand(0), evaluation.operand(1), evaluation.result(0));
}
std::string GatherGradientOp::commandKind() {
  return "gather_gradient";
}
void GatherGradientOp::commandAttributes(NamedAttrList &) {}
LogicalResult GatherGradientOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

} // namespace sluice
