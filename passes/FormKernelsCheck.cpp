#include "passes/Passes.h"

using namespace mlir;

namespace sluice {
#define GEN_PASS_DEF_CHECKLOWERING
#include "passes/Passes.h.inc"

namespace {

bool reachesDevice(Operation *op) {
  if (isa<KernelOp, ReshapeOp, ReadOp, WriteOp, AccumulateOp, ReturnOp>(op))
    return true;
  auto lowerable = dyn_cast<Lowerable>(op);
  return lowerable && !lowerable.commandKind().empty();
}

struct CheckLowering : impl::CheckLoweringBase<CheckLowering> {
  using CheckLoweringBase::CheckLoweringBase;

  void runOnOperation() override {
    SmallVector<Operation *> missing;
    for (GraphOp graph : getOperation().getOps<GraphOp>())
      for (Operation &op : *graph.getBlock())
        if (!reachesDevice(&op))
          missing.push_back(&op);
    if (missing.empty())
      return;
    InFlightDiagnostic report = getOperation().emitError()
                                << missing.size() << " op(s) have no lowering for device '" << device << "'";
    for (Operation *op : missing) {
      OriginAttr origin = originOf(op);
      report.attachNote(op->getLoc())
          << op->getName() << " in '" << (origin ? origin.getPath() : "?")
          << "': neither a library command nor made of primitives that kernels compute";
    }
    signalPassFailure();
  }
};

} // namespace
} // namespace sluice
