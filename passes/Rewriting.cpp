#include "passes/Rewriting.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace sluice {

GraphOp findGraph(ModuleOp module, StringRef name) {
  for (GraphOp graph : module.getOps<GraphOp>())
    if (graph.getSymName() == name)
      return graph;
  return nullptr;
}

SmallVector<StateOp> statesOf(ModuleOp module, StringRef role) {
  SmallVector<StateOp> states;
  for (StateOp state : module.getOps<StateOp>())
    if (state.getRole() == role)
      states.push_back(state);
  return states;
}

OriginAttr withDirection(OriginAttr origin, StringRef direction) {
  return OriginAttr::get(origin.getContext(), origin.getPath(), origin.getLayer(), origin.getRole(),
                         direction);
}

/// Later ops first, so that one sweep removes whole chains.
static void eraseDeadOpsIn(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (isOpTriviallyDead(&op)) {
      op.erase();
      continue;
    }
    // Bodies of map and kernel are one scalar program each; ours are written without dead ops.
    if (isa<ScopeOp, RepeatOp, ExpertsOp>(op))
      eraseDeadOpsIn(op.getRegion(0).front());
  }
}

void eraseDeadOps(GraphOp graph) {
  eraseDeadOpsIn(*graph.getBlock());
}

void eraseUnusedInputs(GraphOp graph, llvm::function_ref<bool(StringRef)> mayErase) {
  Block &block = *graph.getBlock();
  SmallVector<Attribute> names(graph.getInputNames().begin(), graph.getInputNames().end());
  for (int64_t index = static_cast<int64_t>(names.size()) - 1; index >= 0; --index) {
    if (!block.getArgument(index).use_empty() || !mayErase(cast<StringAttr>(names[index]).getValue()))
      continue;
    block.eraseArgument(index);
    names.erase(names.begin() + index);
  }
  graph.setInputNamesAttr(ArrayAttr::get(graph.getContext(), names));
}

static ReturnOp returnOf(GraphOp graph) {
  return cast<ReturnOp>(graph.getBlock()->getTerminator());
}

int64_t outputIndex(GraphOp graph, StringRef name) {
  for (auto [index, output] : llvm::enumerate(returnOf(graph).getNames()))
    if (cast<StringAttr>(output).getValue() == name)
      return static_cast<int64_t>(index);
  return -1;
}

void filterOutputs(GraphOp graph, llvm::function_ref<bool(StringRef)> keep) {
  ReturnOp returnOp = returnOf(graph);
  SmallVector<Value> values;
  SmallVector<Attribute> names;
  for (auto [value, name] : llvm::zip(returnOp.getValues(), returnOp.getNames())) {
    if (!keep(cast<StringAttr>(name).getValue()))
      continue;
    values.push_back(value);
    names.push_back(name);
  }
  returnOp.getValuesMutable().assign(values);
  returnOp.setNamesAttr(ArrayAttr::get(graph.getContext(), names));
}

GraphOp createGraph(ModuleOp module, StringRef name, ArrayRef<StringRef> inputNames,
                    ArrayRef<Type> inputTypes) {
  auto builder = OpBuilder::atBlockEnd(module.getBody());
  auto graph = GraphOp::create(builder, module.getLoc(), builder.getStringAttr(name),
                               builder.getStrArrayAttr(inputNames));
  Block &block = graph.getBody().emplaceBlock();
  for (Type type : inputTypes)
    block.addArgument(type, module.getLoc());
  return graph;
}

void createReturn(GraphOp graph, ValueRange values, ArrayRef<StringRef> names, OriginAttr origin) {
  auto builder = OpBuilder::atBlockEnd(graph.getBlock());
  auto returnOp = ReturnOp::create(builder, graph.getLoc(), values, builder.getStrArrayAttr(names));
  setOrigin(returnOp, origin);
}

} // namespace sluice
