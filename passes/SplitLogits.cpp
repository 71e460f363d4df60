#include "passes/Passes.h"
#include "passes/Rewriting.h"

using namespace mlir;

namespace sluice {
#define GEN_PASS_DEF_SPLITLOGITS
#include "passes/Passes.h.inc"

namespace {

struct SplitLogits : impl::SplitLogitsBase<SplitLogits> {
  void runOnOperation() override {
    auto graphs = llvm::to_vector(getOperation().getOps<GraphOp>());
    if (graphs.size() != 1) {
      getOperation()->emitError() << "expected one model graph before bind, found " << graphs.size();
      return signalPassFailure();
    }
    GraphOp model = graphs.front();
    model.setSymName("model");
    if (outputIndex(model, "logits") < 0)
      return;

    OpBuilder builder(model->getContext());
    builder.setInsertionPointAfter(model);
    auto logits = cast<GraphOp>(builder.clone(*model));
    logits.setSymName("logits");
    // Bind reads and drops this mark.
    logits->setAttr("sluice.fixed_bindings",
                    builder.getDictionaryAttr(builder.getNamedAttr("batch", builder.getI64IntegerAttr(1))));
    filterOutputs(logits, [](StringRef name) { return name == "logits"; });
    logits.walk([](Operation *op) {
      if (isa<AuxiliaryLossOp, ObserveOp>(op))
        op->erase();
    });
    eraseDeadOps(logits);
    eraseUnusedInputs(logits, [](StringRef name) { return name == "targets"; });
  }
};

} // namespace
} // namespace sluice
