#include "passes/PlanValues.h"

using namespace mlir;

namespace sluice {

Value storageOf(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getX();
  return value;
}

int64_t bytesOf(Type type) {
  if (auto routing = dyn_cast<RoutingType>(type))
    return routing.bufferSize() * 4;
  if (auto mask = dyn_cast<MaskType>(type))
    return mask.bufferBytes();
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getNumElements() * ((tensor.getElementTypeBitWidth() + 7) / 8);
}

void readersOf(Value value, SmallVectorImpl<Operation *> &readers) {
  for (Operation *user : value.getUsers()) {
    if (isa<ReshapeOp>(user))
      readersOf(user->getResult(0), readers);
    else
      readers.push_back(user);
  }
}

FlatSymbolRefAttr stateOf(Value value) {
  auto read = storageOf(value).getDefiningOp<ReadOp>();
  return read ? read.getStateAttr() : FlatSymbolRefAttr();
}

StateMap stateMap(ModuleOp module) {
  StateMap states;
  for (StateOp state : module.getOps<StateOp>())
    states[state.getSymNameAttr()] = state;
  return states;
}

KernelOp kernelOf(plan::CommandOp command) {
  if (command.getKind() != "launch")
    return nullptr;
  auto kernels = command.getBody().front().getOps<KernelOp>();
  return kernels.empty() ? KernelOp() : *kernels.begin();
}

SmallVector<plan::CommandOp> commandsOf(GraphOp graph) {
  return SmallVector<plan::CommandOp>(graph.getBlock()->getOps<plan::CommandOp>());
}

SmallVector<int64_t> Dependencies::add(ArrayRef<int64_t> wanted) {
  SmallVector<int64_t> sorted(wanted), kept;
  llvm::sort(sorted, std::greater<>());
  llvm::BitVector all(reached.size());
  for (int64_t number : sorted) {
    if (all.test(number))
      continue;
    kept.push_back(number);
    all |= reached[number];
    all.set(number);
  }
  reached.push_back(std::move(all));
  std::reverse(kept.begin(), kept.end());
  return kept;
}

} // namespace sluice
