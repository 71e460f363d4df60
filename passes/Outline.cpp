#include "passes/Outline.h"

#include "passes/Rewriting.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace sluice {
namespace {

/// Checks the request; see the header for the rules. `first` is the op before which the kernel will stand.
bool isOutlinable(const OutlineRequest &request, llvm::function_ref<bool(Operation *)> mayCopy,
                  Operation *first, std::string &why) {
  llvm::DenseSet<Operation *> inside(request.ops.begin(), request.ops.end());
  llvm::DenseSet<Value> inputs(request.inputs.begin(), request.inputs.end());
  llvm::DenseSet<Value> outputs(request.outputs.begin(), request.outputs.end());
  for (Operation *op : request.ops) {
    for (Value operand : op->getOperands())
      if (!inputs.contains(operand) && !inside.contains(operand.getDefiningOp())) {
        why = "it reads a value that the kernel does not get";
        return false;
      }
    for (Value result : op->getResults())
      for (Operation *user : result.getUsers()) {
        if (inside.contains(user))
          continue;
        if (!outputs.contains(result) && !mayCopy(op)) {
          why = ("a value of " + op->getName().getStringRef() + " is used elsewhere too").str();
          return false;
        }
        // A use inside a region counts as one at the op that holds the region.
        Operation *place = first->getBlock()->findAncestorOpInBlock(*user);
        if (outputs.contains(result) && place && place->isBeforeInBlock(first)) {
          why = "a value is used before all inputs exist";
          return false;
        }
      }
  }
  return true;
}

} // namespace

KernelOp outline(const OutlineRequest &request, llvm::function_ref<bool(Operation *)> mayCopy,
                 std::string &why) {
  SmallVector<Operation *> ops(request.ops);
  llvm::sort(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  Operation *first = ops.front();
  for (Value input : request.inputs)
    if (Operation *op = input.getDefiningOp(); op && !op->isBeforeInBlock(first))
      first = op->getNextNode();
  if (!isOutlinable(request, mayCopy, first, why))
    return nullptr;

  OpBuilder builder(first);
  auto kernel = KernelOp::create(builder, ops.back()->getLoc(), TypeRange(ValueRange(request.outputs)),
                                 request.kind, request.inputs, request.settings);
  if (OriginAttr origin = originOf(ops.back()))
    setOrigin(kernel, origin);
  Block &body = kernel.getBody().emplaceBlock();
  IRMapping mapping;
  for (Value input : request.inputs)
    mapping.map(input, body.addArgument(input.getType(), input.getLoc()));
  builder.setInsertionPointToStart(&body);
  for (Operation *op : ops)
    builder.clone(*op, mapping);
  SmallVector<Value> yielded;
  for (Value output : request.outputs)
    yielded.push_back(mapping.lookup(output));
  YieldOp::create(builder, kernel.getLoc(), yielded);

  for (auto [output, result] : llvm::zip(request.outputs, kernel.getResults()))
    Value(output).replaceAllUsesWith(result);
  for (Operation *op : llvm::reverse(ops)) {
    if (op->use_empty())
      op->erase();
    else if (OriginAttr origin = originOf(op))
      // The kernel does the work now; whatever still reads the op does it again.
      setOrigin(op, withDirection(origin, "recompute"));
  }
  return kernel;
}

} // namespace sluice
