// What the ops of routing and losses share: the routing buffer's layout, token counts, counted targets.
#pragma once

#include "dialects/sluice/Dims.h"
#include "dialects/sluice/Sluice.h"

namespace sluice {

/// Tokens of an assignment as a size: a number after *bind*, a product of names before.
Dim tokensOf(RoutingType routing);
/// Routed rows of an assignment, tokens * top_k.
Dim rowsOf(RoutingType routing);
/// The type of a routing operand.
inline RoutingType routingTypeOf(mlir::Value value) {
  return llvm::cast<RoutingType>(value.getType());
}

/// Reads the flat routing buffer of docs/commands.md: ids[T][K], slot_row[T][K], row_slot[R], offsets[E+1].
class RoutingView {
public:
  /// `buffer` must outlive the view.
  RoutingView(const HostTensor &buffer, RoutingType type)
      : tokens(type.tokenCount()), topK(type.getTopK()), experts(type.getExperts()), rows(type.rows()),
        buffer(buffer) {}
  /// Expert of slot `token * topK + choice`.
  int64_t expert(int64_t slot) const { return at(slot); }
  int64_t rowOfSlot(int64_t slot) const { return at(rows + slot); }
  int64_t slotOfRow(int64_t row) const { return at(2 * rows + row); }
  int64_t tokenOfRow(int64_t row) const { return slotOfRow(row) / topK; }
  /// First row of an expert; offset(experts) is the number of rows.
  int64_t offset(int64_t expert) const { return at(3 * rows + expert); }

  const int64_t tokens, topK, experts, rows;

private:
  int64_t at(int64_t index) const { return static_cast<int64_t>(buffer[index]); }
  const HostTensor &buffer;
};

/// Completes a buffer whose ids are written: rows grouped by expert, inside an expert in increasing slot
/// order.
void groupRows(HostTensor &buffer, RoutingType type);

/// Number of elements of a static tensor value.
Count elementsOf(mlir::Value value);
/// Size of the last axis of a static tensor value.
Count lastSizeOf(mlir::Value value);

/// Number of targets that differ from `ignoreIndex`.
int64_t countedTargets(const HostTensor &targets, int64_t ignoreIndex);
/// log(sum(exp(row))) over `size` numbers, shifted by their maximum.
double logSumExp(const double *row, int64_t size);

/// The rank-0 type of a loss with the element type of `like`.
mlir::RankedTensorType scalarLike(mlir::Type like);
/// `like` with its last size replaced.
mlir::RankedTensorType withLastSize(mlir::Type like, Dim last);

/// Targets must have the leading dimensions of `value` (one target a token).
mlir::LogicalResult verifyTargets(mlir::Operation *op, mlir::Value value, mlir::Value targets);
/// `value` must be one number, rank 0.
mlir::LogicalResult verifyScalar(mlir::Operation *op, mlir::Value value, llvm::StringRef what);
/// `value` must be [..., last] with as many leading elements as the assignment has tokens.
mlir::LogicalResult verifyPerToken(mlir::Operation *op, mlir::Value value, RoutingType routing, int64_t last,
                                   llvm::StringRef what);
/// The first axis must be the assignment's rows.
mlir::LogicalResult verifyRows(mlir::Operation *op, mlir::Value value, RoutingType routing,
                               llvm::StringRef what);

/// Appends an integer, a flag (as 0 or 1) or a number to a command's attributes.
void appendInteger(mlir::NamedAttrList &attributes, mlir::Operation *op, llvm::StringRef name, int64_t value);
void appendFloat(mlir::NamedAttrList &attributes, mlir::Operation *op, llvm::StringRef name, double value);

/// `value` reshaped to the static shape of `like` (no op if it already has it).
mlir::Value reshapedLike(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value, mlir::Value like);
/// The cotangent of result `index`, or a constant of zeros of `result`'s type.
mlir::Value cotangentOrZeros(AdjointBuilder &adjoint, unsigned index, mlir::Value result);

} // namespace sluice
