#include "passes/Passes.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace sluice {
#define GEN_PASS_DEF_UNROLLREPEATS
#include "passes/Passes.h.inc"

namespace {

/// One scope an iteration, each fed by the one before.
void unroll(RepeatOp repeat) {
  OpBuilder builder(repeat);
  Block &body = repeat.getBody().front();
  SmallVector<Value> carried(repeat.getInits());
  const int64_t first = repeat.getFirst(), end = first + static_cast<int64_t>(repeat.getTimes());
  for (int64_t iteration = first; iteration < end; ++iteration) {
    std::string name = (repeat.getName() + "." + Twine(iteration)).str();
    auto scope = ScopeOp::create(builder, repeat.getLoc(), repeat.getResultTypes(),
                                 builder.getStringAttr(name), StringAttr());
    scope->setAttr("sluice.layer", builder.getI64IntegerAttr(iteration));
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&scope.getBody().emplaceBlock());
    IRMapping mapping;
    mapping.map(body.getArguments(), carried);
    for (Operation &op : body)
      builder.clone(op, mapping);
    carried.assign(scope->result_begin(), scope->result_end());
  }
  repeat->replaceAllUsesWith(carried);
  repeat.erase();
}

struct UnrollRepeats : impl::UnrollRepeatsBase<UnrollRepeats> {
  void runOnOperation() override {
    // Inner repeats come first, so that the outer one copies scopes only.
    getOperation().walk([](RepeatOp repeat) { unroll(repeat); });
  }
};

} // namespace
} // namespace sluice
