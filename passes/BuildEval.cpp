#include "passes/Passes.h"
#include "passes/Rewriting.h"

using namespace mlir;

namespace sluice {
#define GEN_PASS_DEF_BUILDEVAL
#include "passes/Passes.h.inc"

namespace {

struct BuildEval : impl::BuildEvalBase<BuildEval> {
  void runOnOperation() override {
    GraphOp model = findGraph(getOperation(), "model");
    if (!model)
      return; // differentiate reports it
    auto builder = OpBuilder::atBlockEnd(getOperation().getBody());
    auto eval = cast<GraphOp>(builder.clone(*model));
    eval.setSymName("eval");
    // Validation loss is cross-entropy only.
    filterOutputs(eval, [](StringRef name) { return name != "logits" && !name.starts_with("auxiliary/"); });
    eraseDeadOps(eval);
  }
};

} // namespace
} // namespace sluice
