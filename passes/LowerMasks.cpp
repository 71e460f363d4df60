#include "dialects/sluice/ops/MaskRules.h"
#include "passes/Passes.h"
#include "passes/Rewriting.h"
#include "runtime/abi/MaskBlocks.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace sluice {
#define GEN_PASS_DEF_LOWERMASKS
#include "passes/Passes.h.inc"

namespace {

/// The mask of a product, or null.
Value maskOfProduct(Operation *op) {
  if (isa<LinearOp, GroupedLinearOp, GroupedWeightGradientOp, MaskedInputGradientOp, MaskedWeightGradientOp>(
          op))
    for (Value operand : op->getOperands())
      if (isa<MaskType>(operand.getType()))
        return operand;
  return {};
}

enum class Product { Forward, InputGradient, WeightGradient };

Product productOf(Operation *op) {
  if (isa<MaskedWeightGradientOp, GroupedWeightGradientOp>(op))
    return Product::WeightGradient;
  if (auto grouped = dyn_cast<GroupedLinearOp>(op))
    return grouped.getTransposeWeight() ? Product::InputGradient : Product::Forward;
  return isa<MaskedInputGradientOp>(op) ? Product::InputGradient : Product::Forward;
}

StringRef nameOf(Product product) {
  switch (product) {
  case Product::Forward:
    return "y = x w^T";
  case Product::InputGradient:
    return "dx = dy w";
  case Product::WeightGradient:
    return "dw = dy^T x";
  }
  return "";
}

double percentOf(Product product, const BreakEven &breakEven) {
  switch (product) {
  case Product::Forward:
    return breakEven.product;
  case Product::InputGradient:
    return breakEven.inputGradient;
  case Product::WeightGradient:
    return breakEven.weightGradient;
  }
  return 0;
}

/// `sparsity.break_even` of the training section: a percentage for all products.
std::optional<double> givenBreakEven(ModuleOp module) {
  auto training = module->getAttrOfType<DictionaryAttr>("sluice.training");
  auto section = training ? training.getAs<DictionaryAttr>("sparsity") : DictionaryAttr();
  Attribute given = section ? section.get("break_even") : Attribute();
  if (auto number = dyn_cast_or_null<FloatAttr>(given))
    return number.getValueAsDouble();
  if (auto integer = dyn_cast_or_null<IntegerAttr>(given))
    return static_cast<double>(integer.getInt());
  return std::nullopt;
}

struct LowerMasks : impl::LowerMasksBase<LowerMasks> {
  using LowerMasksBase::LowerMasksBase;
  LowerMasks(BreakEvenSource source, bool explainsCuda) : source(std::move(source)) { cuda = explainsCuda; }

  void runOnOperation() override {
    given = givenBreakEven(getOperation());
    getOperation().walk([&](Operation *op) {
      if (Value mask = maskOfProduct(op))
        choose(op, mask);
    });
  }

private:
  void choose(Operation *op, Value value) {
    auto mask = cast<MaskType>(value.getType());
    const int64_t most = mask.getKept(), size = mask.matrixSize();
    int64_t least = most; // of any mask that the product will meet
    StringRef weights;    // the parameter's name; a graph before its states are named has none
    if (auto read = value.getDefiningOp<ReadOp>())
      if (auto state = SymbolTable::lookupNearestSymbolFrom<StateOp>(read, read.getStateAttr())) {
        weights = state.getParameter();
        if (auto target = state->getAttrOfType<IntegerAttr>("sluice.target"))
          least = target.getInt();
      }
    const Product product = productOf(op);
    // The kernels that skip zeros add no bias of each expert.
    auto grouped = dyn_cast<GroupedLinearOp>(op);
    const bool possible = !grouped || !grouped.getBias();
    const double percent = possible ? percentOf(product, breakEvenOf(mask)) : 0;
    int64_t atMost = keptAtPercent(mask, percent);
    if (atMost < least)
      atMost = 0;
    op->setAttr(skipAtMostAttributeName, Builder(op->getContext()).getI64IntegerAttr(atMost));
    OriginAttr origin = originOf(op);
    if (!origin)
      return;
    auto share = [&](int64_t kept) {
      return llvm::formatv("{0:f1} %", 100.0 * static_cast<double>(kept) / static_cast<double>(size)).str();
    };
    const std::string breakEven = possible ? llvm::formatv("break-even {0:f1} %, {1}", percent,
                                                           given    ? "given"
                                                           : source ? "measured"
                                                                    : "assumed")
                                                 .str()
                                           : "a bias of each expert has no kernel that skips zeros";
    auto remark = op->emitRemark();
    remark << "masked product " << nameOf(product) << (weights.empty() ? " in '" : " of '")
           << (weights.empty() ? origin.getPath() : weights) << "': ";
    if (atMost == 0)
      remark << "masked dense, keeps " << share(least);
    else if (most <= atMost)
      remark << "skips zeros" << form(mask) << ", keeps " << share(most);
    else
      remark << "masked dense from " << share(most) << ", skips zeros" << form(mask) << " once at most "
             << share(atMost) << " are kept, ends at " << share(least);
    remark << " of its weights (" << breakEven << ")";
    if (cuda)
      remark << "; on CUDA " << onCuda(mask);
  }

  static std::string form(MaskType mask) {
    StringRef pattern = mask.getPattern().getValue();
    return pattern == "unstructured" ? "" : (" of the pattern " + pattern).str();
  }

  /// What runtime/device/cuda does, whatever the break-even.
  static std::string onCuda(MaskType mask) {
    const MaskUnits units(mask);
    if (units.rows * units.columns == 1)
      return "masked dense";
    if (hasBlockProducts(units.rows, units.columns))
      return "over kept blocks alone";
    return llvm::formatv("masked dense, since blocks of {0}x{1} are not multiples of {2}x{2}", units.rows,
                         units.columns, blockTileSide)
        .str();
  }

  BreakEven breakEvenOf(MaskType mask) {
    if (given)
      return BreakEven::all(*given);
    if (!source)
      return BreakEven::all(defaultBreakEvenPercent);
    const MaskUnits units(mask);
    const MaskedShape shape{mask.getShape()[mask.getShape().size() - 2], mask.getShape().back(), units.rows,
                            units.columns};
    for (const auto &[known, breakEven] : measured)
      if (known == shape)
        return breakEven;
    return measured.emplace_back(shape, source(shape)).second;
  }

  BreakEvenSource source;
  std::optional<double> given;
  SmallVector<std::pair<MaskedShape, BreakEven>> measured;
};

} // namespace

std::unique_ptr<Pass> createLowerMasks(BreakEvenSource source, bool cuda) {
  return std::make_unique<LowerMasks>(std::move(source), cuda);
}

} // namespace sluice
