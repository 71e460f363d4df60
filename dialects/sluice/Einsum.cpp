#include "dialects/sluice/Einsum.h"

#include "llvm/ADT/StringExtras.h"

namespace sluice {
namespace {

bool contains(llvm::StringRef letters, char letter) {
  return letters.contains(letter);
}

/// The letters of `from` for which `keep` holds, in order.
template <typename Predicate> std::string filter(llvm::StringRef from, Predicate keep) {
  std::string letters;
  for (char letter : from)
    if (keep(letter))
      letters.push_back(letter);
  return letters;
}

std::string checkLetters(llvm::StringRef letters, llvm::StringRef place) {
  for (size_t i = 0; i < letters.size(); ++i) {
    if (!llvm::isAlpha(letters[i]))
      return ("'" + letters.substr(i, 1) + "' is not a letter").str();
    if (contains(letters.drop_front(i + 1), letters[i]))
      return ("letter '" + letters.substr(i, 1) + "' stands twice in the " + place).str();
  }
  return "";
}

} // namespace

std::optional<Einsum> Einsum::parse(llvm::StringRef equation, std::string &error) {
  auto [operands, result] = equation.split("->");
  auto [first, second] = operands.split(',');
  if (!equation.contains("->") || !operands.contains(',')) {
    error = "expected the form \"mk,nk->mn\"";
    return std::nullopt;
  }
  Einsum einsum{first.trim().str(), second.trim().str(), result.trim().str()};
  for (auto [letters, place] : {std::pair<llvm::StringRef, llvm::StringRef>{einsum.a, "first operand"},
                                {einsum.b, "second operand"},
                                {einsum.c, "result"}}) {
    error = checkLetters(letters, place);
    if (!error.empty())
      return std::nullopt;
  }
  for (auto [letters, other] :
       {std::pair<llvm::StringRef, llvm::StringRef>{einsum.a, einsum.b}, {einsum.b, einsum.a}}) {
    for (char letter : letters) {
      if (contains(other, letter) || contains(einsum.c, letter))
        continue;
      error =
          std::string("letter '") + letter + "' stands in one operand only; use reduce to sum over it first";
      return std::nullopt;
    }
  }
  for (char letter : einsum.c) {
    if (contains(einsum.a, letter) || contains(einsum.b, letter))
      continue;
    error = std::string("letter '") + letter + "' of the result stands in no operand";
    return std::nullopt;
  }
  return einsum;
}

std::string Einsum::batch() const {
  return filter(a, [&](char letter) { return contains(b, letter) && contains(c, letter); });
}
std::string Einsum::rows() const {
  return filter(a, [&](char letter) { return !contains(b, letter); });
}
std::string Einsum::columns() const {
  return filter(b, [&](char letter) { return !contains(a, letter); });
}
std::string Einsum::depth() const {
  return filter(a, [&](char letter) { return contains(b, letter) && !contains(c, letter); });
}

std::optional<GemmForm> gemmForm(const Einsum &equation) {
  const std::string m = equation.rows(), n = equation.columns(), k = equation.depth();
  if (!equation.batch().empty() || m.empty() || n.empty() || k.empty() || equation.c != m + n)
    return std::nullopt;
  // Leading dimensions fold into a matrix's rows, so its last dimension must be a single letter.
  GemmForm form;
  if (equation.a == m + k && k.size() == 1)
    form.transposeA = false;
  else if (equation.a == k + m && m.size() == 1)
    form.transposeA = true;
  else
    return std::nullopt;
  if (equation.b == k + n)
    form.transposeB = false;
  else if (equation.b == n + k && k.size() == 1)
    form.transposeB = true;
  else
    return std::nullopt;
  if (n.size() != 1)
    return std::nullopt;
  return form;
}

std::optional<llvm::SmallVector<Dim>> einsumDims(const Einsum &equation, mlir::Type a, mlir::Type b,
                                                 std::string &error) {
  llvm::SmallVector<Dim> dimsA = dimsOf(a), dimsB = dimsOf(b), dimsC;
  if (dimsA.size() != equation.a.size() || dimsB.size() != equation.b.size()) {
    error = "the operands " + shapeText(a) + " and " + shapeText(b) + " have " +
            std::to_string(dimsA.size()) + " and " + std::to_string(dimsB.size()) + " dimensions";
    return std::nullopt;
  }
  for (size_t i = 0; i < equation.a.size(); ++i) {
    size_t j = equation.b.find(equation.a[i]);
    if (j == std::string::npos || dimsA[i] == dimsB[j])
      continue;
    error = std::string("letter '") + equation.a[i] + "' has two sizes in " + shapeText(a) + " and " +
            shapeText(b);
    return std::nullopt;
  }
  for (char letter : equation.c) {
    size_t i = equation.a.find(letter);
    dimsC.push_back(i != std::string::npos ? dimsA[i] : dimsB[equation.b.find(letter)]);
  }
  return dimsC;
}

} // namespace sluice
