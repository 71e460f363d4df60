// What all ops with a mask check and count.
#pragma once

#include "dialects/sluice/ops/Answers.h"

#include <vector>

namespace sluice {

inline MaskType maskTypeOf(mlir::Value value) {
  return llvm::cast<MaskType>(value.getType());
}
/// What a pattern chooses: units (one weight, or a block of rows x columns that is named by its first weight)
/// of which each group of `group` neighbouring weights keeps `keep`.
struct MaskUnits {
  int64_t group = 0, keep = 0, rows = 1, columns = 1, width = 0;

  explicit MaskUnits(MaskType type);
  /// First weights of the units of the group that begins at weight `begin` of the whole tensor, ascending.
  std::vector<int64_t> ofGroup(int64_t begin) const;
  /// The weights of the unit whose first one is `first`.
  std::vector<int64_t> weightsOf(int64_t first) const;
};

/// Checks that the mask has exactly the shape of `tensor`, which is called `name`.
mlir::LogicalResult requireMask(mlir::Operation *op, mlir::Value mask, mlir::Value tensor,
                                llvm::StringRef name);
/// Whether `tensor` is in kept form: the values of the weights that `mask` keeps, in row-major order, [kept]
/// or [experts, kept].
bool isKeptForm(mlir::Value tensor, mlir::Value mask);
/// Checks that `tensor`, which is called `name`, has the mask's shape or is in kept form.
mlir::LogicalResult requireMaskOrKept(mlir::Operation *op, mlir::Value mask, mlir::Value tensor,
                                      llvm::StringRef name);
/// The whole tensor of one that may be in kept form, and the kept form of a whole one.
HostTensor wholeOf(const HostTensor &tensor, const HostTensor &mask);
HostTensor keptOf(const HostTensor &whole, const HostTensor &mask, llvm::ArrayRef<int64_t> shape);

/// Set by *lower-masks* on a masked product: the largest number of kept weights of a matrix at which its
/// kernel skips the zeros. Absent or 0: the product always runs densely.
inline constexpr llvm::StringLiteral skipAtMostAttributeName = "sluice.skip_at_most";
/// `percent` of a matrix's weights, rounded down.
int64_t keptAtPercent(MaskType mask, double percent);
/// Whether the kernel of `op`, a product with `mask`, skips the zeros of a matrix with as many kept weights
/// as the mask has at most; before *lower-masks* as if the break-even were the default
/// (runtime/abi/BreakEven.h).
bool skipsZeros(mlir::Operation *op, MaskType mask);
/// How the command of `op`, a product with `mask`, treats zeros: `skip_at_most`, `pattern`, and the largest
/// number of kept weights; and the shape of the matrix where `weight`, an operand or the result, is in kept
/// form.
void setMaskedKernel(mlir::Operation *op, mlir::Value mask, mlir::Value weight,
                     mlir::NamedAttrList &attributes);

/// Checks that `value` is one 64-bit integer.
mlir::LogicalResult requireInteger(mlir::Operation *op, llvm::StringRef name, mlir::Value value);

} // namespace sluice
