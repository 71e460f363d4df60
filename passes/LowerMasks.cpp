#include "passes/Passes.h"
#include "passes/Rewriting.h"

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
      op->emitRemark() << op->getName() << " in '" << origin.getPath() << "': masked dense, keeps "
                       << llvm::formatv("{0:f1}", percent).str()
                       << " % of its weights; zeros are multiplied, no kernel skips them yet";
    });
  }
};

} // namespace
} // namespace sluice
