#include "passes/Passes.h"
#include "passes/Rewriting.h"

using namespace mlir;

namespace sluice {
#define GEN_PASS_DEF_LOWERMASKS
#include "passes/Passes.h.inc"

namespace {

struct LowerMasks : impl::LowerMasksBase<LowerMasks> {
  void runOnOperation() override {
    WalkResult result = getOperation().walk([](Operation *op) {
      if (llvm::none_of(op->getOperandTypes(), [](Type type) { return isa<MaskType>(type); }))
        return WalkResult::advance();
      OriginAttr origin = originOf(op);
      op->emitError() << op->getName() << " in '" << (origin ? origin.getPath() : StringRef())
                      << "' has a mask; masked products have no kernels yet, leave the mask out";
      return WalkResult::interrupt();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};

} // namespace
} // namespace sluice
