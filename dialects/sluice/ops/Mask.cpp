// Masks: the type's rules, param_mask, random_mask, apply_mask.
#include "dialects/sluice/ops/MaskRules.h"
#include "runtime/abi/BreakEven.h"
#include "runtime/support/Philox.h"

#include <algorithm>

using namespace mlir;

namespace sluice {
namespace {

/// Two positive integers between, before and after `separator`.
bool readPair(llvm::StringRef text, char separator, int64_t &first, int64_t &second) {
  auto [left, right] = text.split(separator);
  return !left.getAsInteger(10, first) && !right.getAsInteger(10, second) && first > 0 && second > 0;
}

} // namespace

// ----- the type
// ----------------------------------------------------------------------------------------------------

LogicalResult MaskType::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                               llvm::ArrayRef<int64_t> shape, int64_t kept, StringAttr pattern) {
  if ((shape.size() != 2 && shape.size() != 3) || llvm::any_of(shape, [](int64_t size) { return size < 1; }))
    return emitError() << "a mask's shape must be [out, in] or [experts, out, in] of positive sizes, found "
                       << listText(shape);
  const int64_t out = shape[shape.size() - 2], in = shape.back();
  if (kept < 1 || kept > out * in)
    return emitError() << "a mask of " << listText(shape) << " must keep 1 to " << out * in
                       << " weights of a matrix, found " << kept;
  llvm::StringRef text = pattern.getValue();
  int64_t first = 0, second = 0;
  if (text == "unstructured")
    return success();
  if (text.consume_front("block:") && readPair(text, 'x', first, second)) {
    if (out % first != 0 || in % second != 0)
      return emitError() << "blocks of " << first << "x" << second << " must divide the matrix " << out << "x"
                         << in;
    if (kept % (first * second) != 0)
      return emitError() << "a mask of blocks of " << first << "x" << second << " must keep a multiple of "
                         << first * second << " weights, found " << kept;
    return success();
  }
  if (readPair(pattern.getValue(), ':', first, second) && first <= second) {
    if (in % second != 0)
      return emitError() << "n:m needs a multiple of " << second << " inputs, found " << in;
    // More than n of each m only where a method starts with more and removes some.
    const int64_t groups = out * in / second;
    if (kept % groups != 0 || kept / groups < first)
      return emitError() << "a " << pattern << " mask of " << out << "x" << in << " must keep "
                         << groups * first << " weights, or more of each group of " << second
                         << " alike, found " << kept;
    return success();
  }
  return emitError() << "a mask's pattern must be unstructured, n:m with n <= m, or block:RxC, found "
                     << pattern;
}

llvm::SmallVector<int64_t> MaskType::keptShape() const {
  if (getShape().size() == 3)
    return {getShape().front(), getKept()};
  return {getKept()};
}

MaskType MaskType::stacked(int64_t experts) const {
  return MaskType::get(getContext(), {experts, getShape()[0], getShape()[1]}, getKept(), getPattern());
}

MaskUnits::MaskUnits(MaskType type)
    : group(type.matrixSize()), keep(type.getKept()), width(type.getShape().back()) {
  llvm::StringRef pattern = type.getPattern().getValue();
  int64_t n = 0, m = 0;
  if (pattern.consume_front("block:")) {
    readPair(pattern, 'x', rows, columns);
    keep = type.getKept() / (rows * columns);
  } else if (readPair(pattern, ':', n, m)) {
    group = m, keep = type.getKept() / (type.matrixSize() / m);
  }
}

std::vector<int64_t> MaskUnits::ofGroup(int64_t begin) const {
  std::vector<int64_t> units;
  for (int64_t i = begin; i < begin + group; ++i)
    if (i / width % rows == 0 && i % width % columns == 0)
      units.push_back(i);
  return units;
}

std::vector<int64_t> MaskUnits::weightsOf(int64_t first) const {
  std::vector<int64_t> weights;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      weights.push_back(first + row * width + column);
  return weights;
}

LogicalResult requireMask(Operation *op, Value mask, Value tensor, llvm::StringRef name) {
  llvm::SmallVector<Dim> kept;
  for (int64_t size : maskTypeOf(mask).getShape())
    kept.emplace_back(size);
  if (kept == dimsOf(tensor.getType()))
    return success();
  return ruleError(op) << "mask must have the " << name << "'s shape " << dimsText(dimsOf(tensor.getType()))
                       << ", found " << dimsText(kept);
}

bool isKeptForm(Value tensor, Value mask) {
  return tensorTypeOf(tensor).getShape() == llvm::ArrayRef<int64_t>(maskTypeOf(mask).keptShape());
}

LogicalResult requireMaskOrKept(Operation *op, Value mask, Value tensor, llvm::StringRef name) {
  return isKeptForm(tensor, mask) ? success() : requireMask(op, mask, tensor, name);
}

HostTensor wholeOf(const HostTensor &tensor, const HostTensor &mask) {
  if (tensor.shape == mask.shape)
    return tensor;
  HostTensor whole(mask.shape);
  int64_t next = 0;
  for (int64_t i = 0; i < mask.size(); ++i)
    if (mask[i] != 0 && next < tensor.size())
      whole[i] = tensor[next++];
  return whole;
}

HostTensor keptOf(const HostTensor &whole, const HostTensor &mask, llvm::ArrayRef<int64_t> shape) {
  HostTensor kept(shape);
  int64_t next = 0;
  for (int64_t i = 0; i < mask.size(); ++i)
    if (mask[i] != 0 && next < kept.size())
      kept[next++] = whole[i];
  return kept;
}

LogicalResult requireInteger(Operation *op, llvm::StringRef name, Value value) {
  auto type = tensorTypeOf(value);
  if (!type.hasStaticShape() || type.getNumElements() != 1 || !type.getElementType().isInteger(64))
    return ruleError(op) << name << " must be one 64-bit integer, found " << type;
  return success();
}

int64_t keptAtPercent(MaskType mask, double percent) {
  return static_cast<int64_t>(static_cast<double>(mask.matrixSize()) * percent / 100);
}

bool skipsZeros(Operation *op, MaskType mask) {
  if (auto most = op->getAttrOfType<IntegerAttr>(skipAtMostAttributeName))
    return mask.getKept() <= most.getInt();
  return mask.getKept() <= keptAtPercent(mask, defaultBreakEvenPercent);
}

void setMaskedKernel(Operation *op, Value mask, Value weight, NamedAttrList &attributes) {
  if (isKeptForm(weight, mask))
    setText(attributes, op->getContext(), "shape", commaText(maskTypeOf(mask).getShape()));
  auto most = op->getAttrOfType<IntegerAttr>(skipAtMostAttributeName);
  setInteger(attributes, op->getContext(), "skip_at_most", most ? most.getInt() : 0);
  setInteger(attributes, op->getContext(), "kept", maskTypeOf(mask).getKept());
  setText(attributes, op->getContext(), "pattern", maskTypeOf(mask).getPattern().getValue());
}

// ----- param_mask
// --------------------------------------------------------------------------------------------------

void ParamMaskOp::getEffects(llvm::SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  // As for a parameter: never merged with another one, and an unused one may go.
  effects.emplace_back(MemoryEffects::Allocate::get(), getOperation()->getOpResult(0));
}

// ----- random_mask
// -------------------------------------------------------------------------------------------------

LogicalResult RandomMaskOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                             ValueRange operands, DictionaryAttr attributes,
                                             OpaqueProperties properties, RegionRange regions,
                                             llvm::SmallVectorImpl<Type> &types) {
  Adaptor op(operands, attributes, properties, regions);
  if (!isa<MaskType>(op.getType()))
    return emitOptionalError(location, "'sluice.random_mask' op type must be a mask, found ", op.getType());
  types.push_back(op.getType());
  return success();
}

LogicalResult RandomMaskOp::verify() {
  return requireInteger(*this, "seed", getSeed());
}

OpCounts RandomMaskOp::count() {
  // A draw a weight, and its comparison with the largest key that is kept.
  ClassCounts counts;
  counts.index = Count(maskTypeOf(getMask()).matrixSize()) * maskTypeOf(getMask()).matrices();
  counts.compare = counts.index;
  return OpCounts::same(counts);
}

RecomputeCost RandomMaskOp::recomputeCost() {
  return RecomputeCost::Never;
}

LogicalResult RandomMaskOp::evaluate(Evaluation &evaluation) {
  MaskType type = maskTypeOf(getMask());
  HostTensor &mask = evaluation.result(0);
  const auto seed = static_cast<uint64_t>(static_cast<int64_t>(evaluation.operand(0)[0]));
  const PhiloxStream stream(seed, streamKey(std::string_view(getStream().data(), getStream().size())));
  const MaskUnits units(type);
  for (int64_t begin = 0; begin < mask.size(); begin += units.group) {
    std::vector<std::pair<uint32_t, int64_t>> keys;
    for (int64_t unit : units.ofGroup(begin))
      keys.emplace_back(stream.bits(static_cast<uint64_t>(unit)), unit);
    std::sort(keys.begin(), keys.end());
    for (int64_t chosen = 0; chosen < units.keep; ++chosen)
      for (int64_t weight : units.weightsOf(keys[static_cast<size_t>(chosen)].second))
        mask[weight] = 1;
  }
  return success();
}

std::string RandomMaskOp::commandKind() {
  return "random_mask";
}
void RandomMaskOp::commandAttributes(NamedAttrList &attributes) {
  MaskType type = maskTypeOf(getMask());
  setText(attributes, getContext(), "stream", getStream());
  setText(attributes, getContext(), "pattern", type.getPattern().getValue());
  setText(attributes, getContext(), "shape", commaText(type.getShape()));
  setInteger(attributes, getContext(), "kept", type.getKept());
}
LogicalResult RandomMaskOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

// ----- apply_mask
// --------------------------------------------------------------------------------------------------

LogicalResult ApplyMaskOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands,
                                            DictionaryAttr attributes, OpaqueProperties properties,
                                            RegionRange regions, llvm::SmallVectorImpl<Type> &types) {
  Adaptor op(operands, attributes, properties, regions);
  if (op.getKeptOnly())
    types.push_back(RankedTensorType::get(maskTypeOf(op.getMask()).keptShape(), elementTypeOf(op.getX())));
  else
    types.push_back(op.getX().getType());
  return success();
}

LogicalResult ApplyMaskOp::verify() {
  return requireMask(*this, getMask(), getX(), "operand");
}

OpCounts ApplyMaskOp::count() {
  ClassCounts counts;
  counts.compare = elementCount(getX());
  return OpCounts::same(counts);
}

RecomputeCost ApplyMaskOp::recomputeCost() {
  return RecomputeCost::Cheap;
}

LogicalResult ApplyMaskOp::evaluate(Evaluation &evaluation) {
  if (getKeptOnly()) {
    HostTensor &values = evaluation.result(0);
    values = keptOf(evaluation.operand(0), evaluation.operand(1), values.shape);
    return success();
  }
  for (int64_t i = 0; i < evaluation.result(0).size(); ++i)
    if (evaluation.operand(1)[i] != 0)
      evaluation.result(0)[i] = evaluation.operand(0)[i];
  return success();
}

std::string ApplyMaskOp::commandKind() {
  return "apply_mask";
}
void ApplyMaskOp::commandAttributes(NamedAttrList &attributes) {
  if (getKeptOnly())
    setInteger(attributes, getContext(), "kept_only", 1);
}
LogicalResult ApplyMaskOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

} // namespace sluice
