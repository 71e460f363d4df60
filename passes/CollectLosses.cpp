#include "passes/Passes.h"
#include "passes/Rewriting.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace sluice {
#define GEN_PASS_DEF_COLLECTLOSSES
#include "passes/Passes.h.inc"

namespace {

/// Collects one graph's losses and observations, in program order, and turns them into outputs.
class LossCollector {
public:
  explicit LossCollector(GraphOp graph)
      : graph(graph), builder(OpBuilder::atBlockTerminator(graph.getBlock())),
        origin(OriginAttr::get(graph.getContext(), "", -1, "loss", "forward")) {}

  LogicalResult run(llvm::MapVector<StringAttr, FloatAttr> &weights) {
    appendTokens();
    llvm::MapVector<StringAttr, Value> sums;
    SmallVector<std::pair<std::string, Value>> observed;
    for (Operation &op : llvm::make_early_inc_range(*graph.getBlock())) {
      if (auto loss = dyn_cast<AuxiliaryLossOp>(op)) {
        auto [known, isNew] = weights.try_emplace(loss.getNameAttr(), loss.getWeightAttr());
        if (!isNew && known->second != loss.getWeightAttr())
          return loss.emitError() << "auxiliary loss '" << loss.getName() << "' has weight "
                                  << loss.getWeight().convertToDouble() << " here and "
                                  << known->second.getValueAsDouble()
                                  << " elsewhere; one name has one weight";
        Value &sum = sums[loss.getNameAttr()];
        sum = sum ? add(sum, loss.getValue()) : loss.getValue();
        loss.erase();
      } else if (auto observe = dyn_cast<ObserveOp>(op)) {
        StringRef path = originOf(observe).getPath();
        std::string name = path.empty() ? observe.getName().str() : (observe.getName() + "/" + path).str();
        if (!observedNames.insert(name).second)
          return observe.emitError() << "two observations are called '" << name << "'";
        observed.emplace_back(name, observe.getValue());
        observe.erase();
      }
    }
    for (auto &[name, sum] : sums)
      append("auxiliary/" + name.getValue().str(), sum);
    for (auto &[name, value] : observed)
      append(name, value);
    return success();
  }

private:
  Value add(Value a, Value b) {
    auto sum = AddOp::create(builder, b.getLoc(), a, b);
    setOrigin(sum, origin);
    return sum.getY();
  }

  /// The number of counted targets: the unit of the sums.
  void appendTokens() {
    for (auto [name, argument] : llvm::zip(graph.getInputNames(), graph.getBlock()->getArguments())) {
      if (cast<StringAttr>(name).getValue() != "targets" || outputIndex(graph, "loss_sum") < 0)
        continue;
      int64_t ignored = -100;
      graph.walk([&](CrossEntropyOp loss) { ignored = loss.getIgnoreIndex(); });
      auto count =
          CountTargetsOp::create(builder, graph.getLoc(), argument, builder.getI64IntegerAttr(ignored));
      setOrigin(count, origin);
      append("tokens", count.getCount());
    }
  }

  void append(const std::string &name, Value value) {
    auto returnOp = cast<ReturnOp>(graph.getBlock()->getTerminator());
    SmallVector<Attribute> names(returnOp.getNames().begin(), returnOp.getNames().end());
    names.push_back(builder.getStringAttr(name));
    returnOp.getValuesMutable().append(value);
    returnOp.setNamesAttr(builder.getArrayAttr(names));
  }

  GraphOp graph;
  OpBuilder builder;
  OriginAttr origin;
  llvm::StringSet<> observedNames;
};

struct CollectLosses : impl::CollectLossesBase<CollectLosses> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    llvm::MapVector<StringAttr, FloatAttr> weights;
    for (GraphOp graph : module.getOps<GraphOp>()) {
      if (failed(LossCollector(graph).run(weights)))
        return signalPassFailure();
      eraseDeadOps(graph);
      eraseUnusedInputs(graph,
                        [&](StringRef name) { return graph.getSymName() == "logits" && name == "targets"; });
    }
    SmallVector<NamedAttribute> entries;
    for (auto &[name, weight] : weights)
      entries.emplace_back(name, weight);
    module->setAttr("sluice.auxiliary_weights", DictionaryAttr::get(module.getContext(), entries));
    eraseUnreadStates(module);
  }

private:
  void eraseUnreadStates(ModuleOp module) {
    llvm::StringSet<> read;
    module.walk([&](ReadOp op) { read.insert(op.getState()); });
    for (StateOp state : llvm::make_early_inc_range(module.getOps<StateOp>())) {
      if (read.contains(state.getSymName()))
        continue;
      emitRemark(state.getLoc()) << "parameter '" << state.getSymName() << "' is not used and was dropped";
      state.erase();
    }
  }
};

} // namespace
} // namespace sluice
