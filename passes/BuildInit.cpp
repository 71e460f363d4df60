#include "passes/Passes.h"
#include "passes/Rewriting.h"

using namespace mlir;

namespace sluice {
#define GEN_PASS_DEF_BUILDINIT
#include "passes/Passes.h.inc"

namespace {

struct BuildInit : impl::BuildInitBase<BuildInit> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    Type seedType = RankedTensorType::get({1}, IntegerType::get(&getContext(), 64));
    GraphOp init = createGraph(module, "init", {"seed"}, {seedType});
    auto builder = OpBuilder::atBlockEnd(init.getBlock());
    // Masks first: initial values are zero where a mask does not keep.
    SmallVector<StateOp> states = statesOf(module, "mask");
    for (StateOp state : module.getOps<StateOp>())
      if (state.getRole() != "mask")
        states.push_back(state);
    llvm::DenseMap<StringRef, Value> masks; // by parameter
    for (StateOp state : states) {
      OriginAttr origin = OriginAttr::get(&getContext(), state.getSymName(), originOf(state).getLayer(),
                                          state.getKind(), "initialize");
      Operation *value = initialValue(builder, state, init.getBlock()->getArgument(0));
      setOrigin(value, origin);
      if (state.getRole() == "mask")
        masks[state.getParameter()] = value->getResult(0);
      if (Value mask = masks.lookup(state.getParameter()); mask && state.getRole() == "parameter") {
        value = ApplyMaskOp::create(builder, state.getLoc(), value->getResult(0), mask);
        setOrigin(value, origin);
      }
      setOrigin(WriteOp::create(builder, state.getLoc(),
                                FlatSymbolRefAttr::get(&getContext(), state.getSymName()),
                                value->getResult(0)),
                origin);
    }
    createReturn(init, {}, {}, OriginAttr::get(&getContext(), "", -1, "", "initialize"));
  }

private:
  Operation *initialValue(OpBuilder &builder, StateOp state, Value seed) {
    if (isa<RandomMaskAttr>(state.getInit()))
      return RandomMaskOp::create(builder, state.getLoc(), seed, state.getSymNameAttr(),
                                  TypeAttr::get(state.getType()));
    auto type = cast<RankedTensorType>(state.getType());
    if (auto fill = dyn_cast<FillAttr>(state.getInit()))
      return ConstantOp::create(builder, state.getLoc(),
                                builder.getF64FloatAttr(fill.getValue().getValueAsDouble()),
                                builder.getDenseI64ArrayAttr(type.getShape()));
    auto normal = cast<NormalAttr>(state.getInit());
    // The stream is the parameter's name: models that share a parameter start from the same values.
    return RandomNormalOp::create(builder, state.getLoc(), seed, state.getSymNameAttr(),
                                  builder.getF64FloatAttr(normal.getStandardDeviation().getValueAsDouble()),
                                  TypeAttr::get(type));
  }
};

} // namespace
} // namespace sluice
