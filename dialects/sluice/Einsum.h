// Equations of `contract`, "mk,nk->mn": parsing, rules, and whether one is a matrix product as `gemm`
// computes it.
#pragma once

#include "dialects/sluice/Dims.h"

#include <optional>
#include <string>

namespace sluice {

/// The letters of the two operands and of the result.
struct Einsum {
  std::string a, b, c;

  /// Parses and checks the rules: letters only, unique in each operand, each letter in two of the three
  /// places, each letter of the result in an operand. On failure `error` says which rule is broken.
  static std::optional<Einsum> parse(llvm::StringRef equation, std::string &error);

  /// Letters of both operands and the result.
  std::string batch() const;
  /// Letters of the first operand and the result only (M), in the first operand's order.
  std::string rows() const;
  /// Letters of the second operand and the result only (N), in the second operand's order.
  std::string columns() const;
  /// Letters that are summed (K), in the first operand's order.
  std::string depth() const;
  std::string text() const { return a + "," + b + "->" + c; }
};

/// How a `gemm` command computes an equation with its operands in order (docs/commands.md: leading dimensions
/// fold).
struct GemmForm {
  bool transposeA = false, transposeB = false;
};
/// nullopt if the equation has batch letters, an empty side, or an order of letters that folding cannot give.
std::optional<GemmForm> gemmForm(const Einsum &equation);

/// Sizes of the result; nullopt, with `error`, if ranks or sizes of the operands disagree with the letters.
std::optional<llvm::SmallVector<Dim>> einsumDims(const Einsum &equation, mlir::Type a, mlir::Type b,
                                                 std::string &error);

} // namespace sluice
