// Small helpers of the files in this folder: messages of rules, sizes, plain loops over index boxes,
// settings.
#pragma once

#include "dialects/sluice/Dims.h"
#include "dialects/sluice/Sluice.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace sluice {

// ----- messages
// --------------------------------------------------------------------------------------------------

/// Starts an error at `op`: its name and, where it has an origin, the path in the model.
mlir::InFlightDiagnostic ruleError(mlir::Operation *op);
/// Checks that the value has exactly `expected` (sizes may be named); else an error that says both.
mlir::LogicalResult requireShape(mlir::Operation *op, llvm::StringRef name, mlir::Value value,
                                 llvm::ArrayRef<Dim> expected, llvm::StringRef why);
/// Checks that the tensor's rank is at least `least`.
mlir::LogicalResult requireRank(mlir::Operation *op, llvm::StringRef name, mlir::Value value, int64_t least);
/// For inferReturnTypes, which has no op yet: checks the operand's rank.
mlir::LogicalResult inferRank(std::optional<mlir::Location> location, llvm::StringRef op,
                              llvm::StringRef name, mlir::Value value, int64_t least,
                              int64_t most = INT64_MAX);
/// `[2, 3]` for messages.
std::string dimsText(llvm::ArrayRef<Dim> dims);
std::string listText(llvm::ArrayRef<int64_t> numbers);

// ----- sizes
// -----------------------------------------------------------------------------------------------------

inline mlir::RankedTensorType tensorTypeOf(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}
inline mlir::Type elementTypeOf(mlir::Value value) {
  return tensorTypeOf(value).getElementType();
}
/// Elements of a static tensor.
inline Count elementCount(mlir::Value value) {
  Count elements = 1;
  for (int64_t size : tensorTypeOf(value).getShape())
    elements *= size;
  return elements;
}
/// Size of axis `axis` of a static tensor; negative counts from the end.
inline Count sizeOf(mlir::Value value, int64_t axis) {
  auto type = tensorTypeOf(value);
  return static_cast<Count>(type.getDimSize(axis < 0 ? axis + type.getRank() : axis));
}
/// All sizes but the last, multiplied.
inline Count rowCount(mlir::Value value) {
  return elementCount(value) / sizeOf(value, -1);
}

/// Sizes of the broadcast of several shapes, aligned at the last axis; nullopt if they disagree.
std::optional<llvm::SmallVector<Dim>> broadcastDims(llvm::ArrayRef<llvm::SmallVector<Dim>> shapes);
/// Whether `from` repeats to `to` along axes of size 1 and new leading axes.
bool broadcastsTo(llvm::ArrayRef<Dim> from, llvm::ArrayRef<Dim> to);

/// On an op over gradients of which some are in kept form: the elements of the whole tensors, which it
/// counts.
inline constexpr llvm::StringLiteral wholeElementsAttributeName = "sluice.whole_elements";
/// That number, or `typed` without the attribute.
Count wholeElements(mlir::Operation *op, Count typed);

// ----- loops of the float64 meaning
// ------------------------------------------------------------------------------

/// Row-major strides of a shape.
llvm::SmallVector<int64_t> stridesOf(llvm::ArrayRef<int64_t> shape);
/// Strides with which a tensor of shape `from` is read by an index of shape `to`: 0 where it repeats.
llvm::SmallVector<int64_t> broadcastStrides(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to);
/// Sum of index[i] * strides[i].
int64_t offsetOf(llvm::ArrayRef<int64_t> index, llvm::ArrayRef<int64_t> strides);
/// Calls `visit(index, linear)` for every index of the box, last axis fastest.
void forEachIndex(llvm::ArrayRef<int64_t> shape,
                  llvm::function_ref<void(llvm::ArrayRef<int64_t>, int64_t)> visit);

// ----- settings of commands
// --------------------------------------------------------------------------------------

void setInteger(mlir::NamedAttrList &attributes, mlir::MLIRContext *context, llvm::StringRef name,
                int64_t value);
void setNumber(mlir::NamedAttrList &attributes, mlir::MLIRContext *context, llvm::StringRef name,
               double value);
void setText(mlir::NamedAttrList &attributes, mlir::MLIRContext *context, llvm::StringRef name,
             llvm::StringRef value);
/// "0,2,1".
std::string commaText(llvm::ArrayRef<int64_t> numbers);
/// "0.5,0.25", digits enough to give every double back.
std::string numbersText(llvm::ArrayRef<double> numbers);

} // namespace sluice
