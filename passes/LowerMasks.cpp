#include "dialects/sluice/ops/MaskRules.h"
#include "passes/Passes.h"
#include "passes/Rewriting.h"
#include "runtime/abi/Tiles.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace sluice {
#define GEN_PASS_DEF_LOWERMASKS
#include "passes/Passes.h.inc"

namespace {

/// The mask of a product, or null.
MaskType maskOfProduct(Operation *op) {
  if (isa<LinearOp, GroupedLinearOp, GroupedWeightGradientOp, MaskedInputGradientOp, MaskedWeightGradientOp>(
          op))
    for (Type type : op->getOperandTypes())
      if (auto mask = dyn_cast<MaskType>(type))
        return mask;
  return {};
}

struct LowerMasks : impl::LowerMasksBase<LowerMasks> {
  void runOnOperation() override {
    getOperation().walk([](Operation *op) {
      MaskType mask = maskOfProduct(op);
      OriginAttr origin = originOf(op);
      if (!mask || !origin)
        return;
      const double percent =
          100.0 * static_cast<double>(mask.getKept()) / static_cast<double>(mask.matrixSize());
      const bool grouped = isa<GroupedLinearOp, GroupedWeightGradientOp>(op);
      const bool skips = !grouped && skippingPays(mask);
      if (skips)
        op->setAttr(skipZerosAttributeName, UnitAttr::get(op->getContext()));
      const std::string why =
          skips     ? ""
          : grouped ? "; zeros are multiplied, no grouped kernel skips them yet"
                    : llvm::formatv("; zeros are multiplied, skipping them pays at {0} % or less",
                                    tiles::sparseBreakEvenPercent)
                          .str();
      op->emitRemark() << op->getName() << " in '" << origin.getPath()
                       << (skips ? "': skips zeros, keeps " : "': masked dense, keeps ")
                       << llvm::formatv("{0:f1}", percent).str() << " % of its weights" << why;
    });
  }
};

} // namespace
} // namespace sluice
