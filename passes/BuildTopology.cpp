#include "dialects/sluice/Notation.h"
#include "passes/MaskSettings.h"
#include "passes/Passes.h"
#include "passes/Rewriting.h"

#include <optional>

using namespace mlir;

namespace sluice {
#define GEN_PASS_DEF_BUILDTOPOLOGY
#include "passes/Passes.h.inc"

namespace {

struct BuildTopology : impl::BuildTopologyBase<BuildTopology> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(settings.read(module)))
      return signalPassFailure();
    SmallVector<StateOp> moving, byGradient;
    for (StateOp mask : statesOf(module, "mask")) {
      if (settings.of(mask).moves())
        moving.push_back(mask);
      if (settings.of(mask).grow == "gradient")
        byGradient.push_back(mask);
    }
    if (!byGradient.empty())
      buildDenseAccumulation(module, byGradient);
    if (!moving.empty())
      buildUpdate(module, moving);
  }

private:
  StateOp parameterOf(StateOp mask) {
    return SymbolTable::lookupNearestSymbolFrom<StateOp>(mask, mask.getParameterAttr());
  }

  /// `accumulate` again, with the whole gradients of masked parameters summed beside those of kept weights.
  void buildDenseAccumulation(ModuleOp module, ArrayRef<StateOp> masks) {
    OpBuilder states(module.getContext());
    auto zero = FillAttr::get(module.getContext(), states.getF64FloatAttr(0.0));
    llvm::DenseSet<StringAttr> gradients;
    for (StateOp mask : masks) {
      StateOp parameter = parameterOf(mask);
      states.setInsertionPointAfter(mask);
      auto dense = cast<StateOp>(states.clone(*parameter.getOperation()));
      dense.setSymName((parameter.getSymName() + ".dense_gradient").str());
      dense.setInitAttr(zero);
      dense.setRole("dense_gradient");
      dense.setCheckpoint((parameter.getCheckpoint() + ".dense_gradient").str());
      gradients.insert(states.getStringAttr(parameter.getSymName() + ".gradient"));
    }
    auto end = OpBuilder::atBlockEnd(module.getBody());
    auto graph = cast<GraphOp>(end.clone(*findGraph(module, "accumulate")));
    graph.setSymName("accumulate_dense");
    for (AccumulateOp sum : llvm::make_early_inc_range(graph.getBlock()->getOps<AccumulateOp>())) {
      if (!gradients.contains(sum.getStateAttr().getAttr()))
        continue;
      Operation *product = sum.getValue().getDefiningOp();
      OpBuilder builder(product);
      Value mask = product->getOperands().back(), dense = withoutMask(builder, product);
      setOrigin(dense.getDefiningOp(), originOf(product));
      auto kept = ApplyMaskOp::create(builder, product->getLoc(), dense, mask);
      setOrigin(kept, originOf(product));
      std::string state = sum.getState().drop_back(StringRef(".gradient").size()).str() + ".dense_gradient";
      builder.setInsertionPoint(sum);
      setOrigin(AccumulateOp::create(builder, sum.getLoc(),
                                     FlatSymbolRefAttr::get(module.getContext(), state), dense),
                originOf(sum));
      product->getResult(0).replaceAllUsesWith(kept.getY());
      product->erase();
    }
  }

  /// The gradient of every weight.
  static Value withoutMask(OpBuilder &builder, Operation *product) {
    if (auto grouped = dyn_cast<GroupedWeightGradientOp>(product))
      return GroupedWeightGradientOp::create(builder, product->getLoc(), grouped.getDy(), grouped.getX(),
                                             grouped.getRouting(), Value());
    auto single = cast<MaskedWeightGradientOp>(product);
    const int64_t leading = cast<RankedTensorType>(single.getDy().getType()).getRank() - 1;
    const std::string rows = StringRef("abcdefgh").take_front(leading).str();
    return ContractOp::create(builder, product->getLoc(), single.getDy(), single.getX(),
                              builder.getStringAttr(rows + "o," + rows + "i->oi"));
  }

  void buildUpdate(ModuleOp module, ArrayRef<StateOp> masks) {
    Type integer = RankedTensorType::get({1}, IntegerType::get(&getContext(), 64));
    GraphOp graph = createGraph(module, "update_topology", {"seed", "step", "amount", "removed"},
                                {integer, integer, integer, integer});
    builder.emplace(OpBuilder::atBlockEnd(graph.getBlock()));
    for (StateOp mask : masks)
      update(mask, graph.getBlock()->getArguments());
    createReturn(graph, {}, {}, OriginAttr::get(&getContext(), "", -1, "", "update"));
    builder.reset();
  }

  void update(StateOp mask, ArrayRef<BlockArgument> inputs) {
    StateOp parameter = parameterOf(mask);
    auto type = cast<MaskType>(mask.getType());
    auto target = mask->getAttrOfType<IntegerAttr>("sluice.target");
    const MaskRule &rule = settings.of(mask);
    const bool gradient = rule.grow == "gradient";
    Value oldMask = read(mask, ".mask", parameter), weights = read(parameter, "", parameter),
          average = read(parameter, ".exp_avg", parameter),
          square = read(parameter, ".exp_avg_sq", parameter),
          age = settings.ages(mask) ? read(parameter, ".age", parameter) : Value(),
          dense = gradient ? read(parameter, ".dense_gradient", parameter) : Value();
    auto op = UpdateMaskOp::create(*builder, mask.getLoc(), oldMask, weights, average, square, inputs[0],
                                   inputs[1], inputs[rule.grow == "none" ? 3 : 2], age, dense,
                                   builder->getStringAttr(mask.getSymName()),
                                   builder->getStringAttr(rule.drop), builder->getStringAttr(rule.grow),
                                   builder->getI64IntegerAttr(target ? target.getInt() : type.getKept()),
                                   builder->getF64FloatAttr(settings.restart));
    setOrigin(op, originFor(parameter));
    SmallVector<StringRef> suffixes = {".mask", "", ".exp_avg", ".exp_avg_sq"};
    if (age)
      suffixes.push_back(".age");
    for (auto [suffix, value] : llvm::zip(suffixes, op->getResults()))
      write(parameter, suffix, value);
    if (!gradient)
      return;
    auto zero = ConstantOp::create(
        *builder, mask.getLoc(), builder->getF64FloatAttr(0.0),
        builder->getDenseI64ArrayAttr(cast<RankedTensorType>(parameter.getType()).getShape()));
    setOrigin(zero, originFor(parameter));
    write(parameter, ".dense_gradient", zero);
  }

  FlatSymbolRefAttr symbol(StateOp parameter, StringRef suffix) {
    return FlatSymbolRefAttr::get(&getContext(), (parameter.getSymName() + suffix).str());
  }
  Value read(StateOp typed, StringRef suffix, StateOp parameter) {
    auto op = ReadOp::create(*builder, parameter.getLoc(), typed.getType(), symbol(parameter, suffix));
    setOrigin(op, originFor(parameter));
    return op.getValue();
  }
  void write(StateOp parameter, StringRef suffix, Value value) {
    setOrigin(WriteOp::create(*builder, parameter.getLoc(), symbol(parameter, suffix), value),
              originFor(parameter));
  }
  OriginAttr originFor(StateOp parameter) {
    OriginAttr origin = originOf(parameter);
    return OriginAttr::get(&getContext(), parameter.getSymName(), origin.getLayer(), origin.getRole(),
                           "update");
  }

  MaskSettings settings;
  std::optional<OpBuilder> builder;
};

} // namespace
} // namespace sluice
