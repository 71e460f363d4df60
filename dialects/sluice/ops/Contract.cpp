// contract: a product of two tensors by an equation (Einsum.h).
#include "dialects/sluice/Einsum.h"
#include "dialects/sluice/ops/Answers.h"

using namespace mlir;

namespace sluice {
namespace {

/// The equation of a verified op.
Einsum equationOf(ContractOp op) {
  std::string error;
  return *Einsum::parse(op.getEquation(), error);
}

/// Whether a value is a parameter, so that a device may keep a packed copy of it.
bool isParameter(Value value) {
  return isa_and_nonnull<ReadOp, ParamOp>(value.getDefiningOp());
}

/// contract(x, y) with the operands in the order that a gemm can compute, if there is one.
Value contractAsGemm(AdjointBuilder &adjoint, Value x, llvm::StringRef xLetters, Value y,
                     llvm::StringRef yLetters, llvm::StringRef result) {
  Einsum straight{xLetters.str(), yLetters.str(), result.str()};
  Einsum swapped{yLetters.str(), xLetters.str(), result.str()};
  if (!gemmForm(straight) && gemmForm(swapped))
    return ContractOp::create(adjoint.builder, adjoint.loc, y, x, swapped.text());
  return ContractOp::create(adjoint.builder, adjoint.loc, x, y, straight.text());
}

} // namespace

LogicalResult ContractOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                           ValueRange operands, DictionaryAttr attributes,
                                           OpaqueProperties properties, RegionRange regions,
                                           llvm::SmallVectorImpl<Type> &types) {
  Adaptor op(operands, attributes, properties, regions);
  std::string error;
  std::optional<Einsum> equation = Einsum::parse(op.getEquation(), error);
  std::optional<llvm::SmallVector<Dim>> dims;
  if (equation)
    dims = einsumDims(*equation, op.getA().getType(), op.getB().getType(), error);
  if (!dims)
    return emitOptionalError(location, "'sluice.contract' op equation \"", op.getEquation(), "\": ", error);
  types.push_back(tensorOf(*dims, elementTypeOf(op.getA())));
  return success();
}

LogicalResult ContractOp::verify() {
  if (elementTypeOf(getA()) != elementTypeOf(getB()))
    return ruleError(*this) << "operands must have one element type, found " << elementTypeOf(getA())
                            << " and " << elementTypeOf(getB());
  return success();
}

OpCounts ContractOp::count() {
  const Einsum equation = equationOf(*this);
  Count products = elementCount(getA());
  for (auto [axis, letter] : llvm::enumerate(equation.b))
    if (equation.a.find(letter) == std::string::npos)
      products *= sizeOf(getB(), static_cast<int64_t>(axis));
  ClassCounts counts;
  counts.contraction = 2 * products;
  return OpCounts::same(counts);
}

RecomputeCost ContractOp::recomputeCost() {
  return RecomputeCost::Costly;
}

LogicalResult ContractOp::evaluate(Evaluation &evaluation) {
  const Einsum equation = equationOf(*this);
  const HostTensor &a = evaluation.operand(0), &b = evaluation.operand(1);
  HostTensor &c = evaluation.result(0);
  // One loop a letter: the result's first, then the summed ones.
  const std::string letters = equation.c + equation.depth();
  llvm::SmallVector<int64_t> sizes, stridesA, stridesB, stridesC;
  const llvm::SmallVector<int64_t> ownA = stridesOf(a.shape), ownB = stridesOf(b.shape),
                                   ownC = stridesOf(c.shape);
  for (char letter : letters) {
    const size_t inA = equation.a.find(letter), inB = equation.b.find(letter), inC = equation.c.find(letter);
    sizes.push_back(inA != std::string::npos ? a.shape[inA] : b.shape[inB]);
    stridesA.push_back(inA != std::string::npos ? ownA[inA] : 0);
    stridesB.push_back(inB != std::string::npos ? ownB[inB] : 0);
    stridesC.push_back(inC != std::string::npos ? ownC[inC] : 0);
  }
  forEachIndex(sizes, [&](llvm::ArrayRef<int64_t> index, int64_t) {
    c[offsetOf(index, stridesC)] += a[offsetOf(index, stridesA)] * b[offsetOf(index, stridesB)];
  });
  return success();
}

LogicalResult ContractOp::buildAdjoint(AdjointBuilder &adjoint) {
  Value dc = adjoint.cotangent(0);
  if (!dc)
    return success();
  const Einsum equation = equationOf(*this);
  if (adjoint.needed(0))
    adjoint.setOperandCotangent(0, contractAsGemm(adjoint, dc, equation.c, getB(), equation.b, equation.a));
  if (adjoint.needed(1))
    adjoint.setOperandCotangent(1, contractAsGemm(adjoint, getA(), equation.a, dc, equation.c, equation.b));
  return success();
}

std::string ContractOp::commandKind() {
  return gemmForm(equationOf(*this)) ? "gemm" : "contract";
}

void ContractOp::commandAttributes(NamedAttrList &attributes) {
  std::optional<GemmForm> form = gemmForm(equationOf(*this));
  if (!form)
    return setText(attributes, getContext(), "equation", getEquation());
  setInteger(attributes, getContext(), "transpose_a", form->transposeA);
  setInteger(attributes, getContext(), "transpose_b", form->transposeB);
  setInteger(attributes, getContext(), "parameter_b", isParameter(getB()));
}

LogicalResult ContractOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

} // namespace sluice
