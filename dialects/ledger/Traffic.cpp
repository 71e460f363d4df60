#include "dialects/ledger/Traffic.h"

#include "dialects/plan/Plan.h"
#include "dialects/sluice/Sluice.h"

#include <algorithm>

using namespace mlir;

namespace sluice {
namespace {

/// Bytes of a value in memory; a routing assignment is a buffer of 32-bit integers, a mask one bit a weight.
Count bytesOfType(Type type) {
  if (auto routing = dyn_cast<RoutingType>(type))
    return (Count(routing.tokenCount()) * routing.getTopK() * 3 + routing.getExperts() + 1) * 4;
  if (auto mask = dyn_cast<MaskType>(type))
    return mask.bufferBytes();
  Count elements = 1;
  auto tensor = cast<RankedTensorType>(type);
  for (int64_t size : tensor.getShape())
    elements *= size;
  return elements * ((tensor.getElementTypeBitWidth() + 7) / 8);
}

/// Bytes of an operand that the op really reads.
Count bytesRead(OpOperand &operand) {
  Operation *op = operand.getOwner();
  const Count whole = bytesOfType(operand.get().getType());
  const unsigned index = operand.getOperandNumber();
  if ((isa<EmbeddingOp>(op) && index == 1) || (isa<GatherOp>(op) && index == 0))
    return std::min(whole, bytesOfType(op->getResult(0).getType()));
  if (auto product = dyn_cast<GroupedLinearOp>(op); product && operand.get() == product.getWeight()) {
    auto routing = cast<RoutingType>(product.getRouting().getType());
    const Count rows = Count(routing.tokenCount()) * routing.getTopK(), experts = routing.getExperts();
    return experts == 0 ? whole : whole / experts * std::min(experts, rows);
  }
  return whole;
}

bool isView(Operation *op) {
  return isa<ReshapeOp>(op);
}

Operation *unitOf(Operation *op) {
  Operation *unit = nullptr;
  for (Operation *parent = op->getParentOp(); parent; parent = parent->getParentOp())
    if (isa<KernelOp, plan::CommandOp>(parent))
      unit = parent;
  return unit;
}

/// Where a value inside `unit` comes from: a value outside, an argument that stands for a state, or a value
/// that an op inside computes.
Value rootOf(Value value) {
  while (true) {
    if (Operation *op = value.getDefiningOp()) {
      if (!isView(op))
        return value;
      value = op->getOperand(0);
      continue;
    }
    auto argument = cast<BlockArgument>(value);
    Operation *parent = argument.getOwner()->getParentOp();
    OperandRange inputs(nullptr, 0);
    if (auto kernel = dyn_cast<KernelOp>(parent))
      inputs = kernel.getInputs();
    else if (auto command = dyn_cast<plan::CommandOp>(parent))
      inputs = command.getInputs();
    if (argument.getArgNumber() >= inputs.size())
      return value;
    value = inputs[argument.getArgNumber()];
  }
}

/// Whether a value inside `unit` leaves it, through views and the results of inner kernels.
bool leaves(Value value, Operation *unit) {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (isView(user)) {
      if (leaves(user->getResult(0), unit))
        return true;
    } else if (isa<YieldOp>(user)) {
      Operation *parent = user->getParentOp();
      if (parent == unit ||
          (isa<KernelOp>(parent) && leaves(parent->getResult(use.getOperandNumber()), unit)))
        return true;
    }
  }
  return false;
}

} // namespace

Count bytesOf(Operation *op) {
  Count bytes = 0;
  if (isView(op))
    return bytes;
  llvm::SmallDenseSet<Value> read;
  for (OpOperand &operand : op->getOpOperands())
    if (read.insert(operand.get()).second)
      bytes += bytesRead(operand);
  for (Value result : op->getResults())
    bytes += bytesOfType(result.getType());
  // The state is read and written in place.
  if (auto accumulate = dyn_cast<AccumulateOp>(op))
    bytes += 2 * bytesOfType(accumulate.getValue().getType());
  return bytes;
}

Count BorderTraffic::bytesOf(Operation *op) {
  Operation *holder = unitOf(op);
  if (!holder)
    return sluice::bytesOf(op);
  if (holder != unit) {
    unit = holder;
    charged.clear();
  }
  Count bytes = 0;
  if (isView(op))
    return bytes;
  for (OpOperand &operand : op->getOpOperands()) {
    Value root = rootOf(operand.get());
    Operation *maker = root.getDefiningOp();
    bool inside = maker && holder->isProperAncestor(maker);
    if (!inside && charged.insert(root).second)
      bytes += bytesRead(operand);
  }
  for (Value result : op->getResults())
    if (leaves(result, holder))
      bytes += bytesOfType(result.getType());
  return bytes;
}

} // namespace sluice
