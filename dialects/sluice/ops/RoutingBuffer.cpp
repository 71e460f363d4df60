#include "dialects/sluice/ops/RoutingBuffer.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlir;

namespace sluice {

Dim tokensOf(RoutingType routing) {
  return productOf({Dim(routing.getTokens().getValue().str())});
}

Dim rowsOf(RoutingType routing) {
  return productOf({Dim(routing.getTopK()), tokensOf(routing)});
}

void groupRows(HostTensor &buffer, RoutingType type) {
  const int64_t rows = type.rows(), experts = type.getExperts();
  const int64_t offsets = 3 * rows;
  int64_t row = 0;
  for (int64_t expert = 0; expert < experts; ++expert) {
    buffer[offsets + expert] = static_cast<double>(row);
    for (int64_t slot = 0; slot < rows; ++slot) {
      if (static_cast<int64_t>(buffer[slot]) != expert)
        continue;
      buffer[rows + slot] = static_cast<double>(row);
      buffer[2 * rows + row] = static_cast<double>(slot);
      ++row;
    }
  }
  buffer[offsets + experts] = static_cast<double>(row);
}

Count elementsOf(Value value) {
  Count elements = 1;
  for (int64_t size : cast<RankedTensorType>(value.getType()).getShape())
    elements *= size;
  return elements;
}

Count lastSizeOf(Value value) {
  return static_cast<Count>(cast<RankedTensorType>(value.getType()).getShape().back());
}

int64_t countedTargets(const HostTensor &targets, int64_t ignoreIndex) {
  return std::count_if(targets.values.begin(), targets.values.end(),
                       [&](double target) { return static_cast<int64_t>(target) != ignoreIndex; });
}

double logSumExp(const double *row, int64_t size) {
  double maximum = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < size; ++i)
    maximum = std::max(maximum, row[i]);
  double sum = 0;
  for (int64_t i = 0; i < size; ++i)
    sum += std::exp(row[i] - maximum);
  return maximum + std::log(sum);
}

RankedTensorType scalarLike(Type like) {
  return RankedTensorType::get({}, cast<RankedTensorType>(like).getElementType());
}

RankedTensorType withLastSize(Type like, Dim last) {
  llvm::SmallVector<Dim> dims = dimsOf(like);
  dims.back() = std::move(last);
  return tensorOf(dims, cast<RankedTensorType>(like).getElementType());
}

LogicalResult verifyTargets(Operation *op, Value value, Value targets) {
  llvm::SmallVector<Dim> leading = dimsOf(value.getType());
  if (leading.empty())
    return op->emitOpError("needs at least one axis of scores, found a scalar");
  leading.pop_back();
  // Ids may arrive flattened: what counts is one target a token.
  if (productOf(leading) != productOf(dimsOf(targets.getType())))
    return op->emitOpError() << "needs one target a token: scores are " << shapeText(value.getType())
                             << ", targets are " << shapeText(targets.getType());
  return success();
}

LogicalResult verifyScalar(Operation *op, Value value, llvm::StringRef what) {
  if (cast<RankedTensorType>(value.getType()).getRank() == 0)
    return success();
  return op->emitOpError() << what << " must be a scalar, found " << shapeText(value.getType());
}

LogicalResult verifyPerToken(Operation *op, Value value, RoutingType routing, int64_t last,
                             llvm::StringRef what) {
  llvm::SmallVector<Dim> dims = dimsOf(value.getType());
  if (dims.empty() || dims.back() != Dim(last))
    return op->emitOpError() << what << " must have " << last << " columns, found "
                             << shapeText(value.getType());
  if (leadingProduct(value.getType()) != tokensOf(routing))
    return op->emitOpError() << what << " must have one row for each of the assignment's "
                             << routing.getTokens().getValue() << " tokens, found "
                             << shapeText(value.getType());
  return success();
}

LogicalResult verifyRows(Operation *op, Value value, RoutingType routing, llvm::StringRef what) {
  llvm::SmallVector<Dim> dims = dimsOf(value.getType());
  Dim rows = rowsOf(routing);
  if (dims.size() != 2 || dims.front() != rows)
    return op->emitOpError() << what << " must be ["
                             << (rows.isStatic() ? std::to_string(rows.size) : rows.name)
                             << ", ...], the assignment's rows (tokens * top_k), found "
                             << shapeText(value.getType());
  return success();
}

void appendInteger(NamedAttrList &attributes, Operation *op, llvm::StringRef name, int64_t value) {
  attributes.append(name, IntegerAttr::get(IntegerType::get(op->getContext(), 64), value));
}

void appendFloat(NamedAttrList &attributes, Operation *op, llvm::StringRef name, double value) {
  attributes.append(name, FloatAttr::get(Float64Type::get(op->getContext()), value));
}

Value reshapedLike(OpBuilder &builder, Location loc, Value value, Value like) {
  auto shape = cast<RankedTensorType>(like.getType()).getShape();
  if (cast<RankedTensorType>(value.getType()).getShape() == shape)
    return value;
  return ReshapeOp::create(builder, loc, value, builder.getDenseI64ArrayAttr(shape)).getY();
}

Value cotangentOrZeros(AdjointBuilder &adjoint, unsigned index, Value result) {
  if (Value cotangent = adjoint.cotangent(index))
    return cotangent;
  OpBuilder &builder = adjoint.builder;
  auto shape = cast<RankedTensorType>(result.getType()).getShape();
  return ConstantOp::create(builder, adjoint.loc, builder.getF64FloatAttr(0.0),
                            builder.getDenseI64ArrayAttr(shape))
      .getResult();
}

} // namespace sluice
