// Shapes whose sizes may be named: reading, building and binding them.
#pragma once

#include "dialects/sluice/Sluice.h"

#include "llvm/ADT/StringMap.h"

#include <optional>
#include <string>

namespace sluice {

/// One size: a number, or a name or product of names ("2*batch*seq").
struct Dim {
  int64_t size = mlir::ShapedType::kDynamic;
  std::string name; // empty when size is known

  Dim(int64_t size) : size(size) {}
  Dim(std::string name) : name(std::move(name)) {}
  bool isStatic() const { return name.empty(); }
  bool operator==(const Dim &) const = default;
};

/// The sizes of a tensor type, with the names of its encoding.
llvm::SmallVector<Dim> dimsOf(mlir::Type type);
/// A tensor of these sizes; names go to the encoding.
mlir::RankedTensorType tensorOf(llvm::ArrayRef<Dim> dims, mlir::Type elementType);
/// The product as one size: numbers are multiplied, names are joined in canonical order (number first, then
/// sorted).
Dim productOf(llvm::ArrayRef<Dim> dims);
/// Sizes of all but the last axis as one product (the number of tokens of [batch, seq, d]).
Dim leadingProduct(mlir::Type type);
/// Replaces names by numbers; nullopt if a name has no binding (it is written to `missing`) or the product
/// overflows.
std::optional<int64_t> evaluate(llvm::StringRef product, const llvm::StringMap<int64_t> &bindings,
                                std::string &missing);

/// Text such as `[batch, seq, 256]` for messages.
std::string shapeText(mlir::Type type);

} // namespace sluice
