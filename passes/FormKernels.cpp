#include "passes/FormKernelsGroups.h"
#include "passes/Passes.h"
#include "passes/Rewriting.h"

#include "codegen/kernel/Program.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

#include <queue>

using namespace mlir;

namespace sluice {
#define GEN_PASS_DEF_FORMKERNELS
#include "passes/Passes.h.inc"

namespace {

/// One thing to emit: a kernel, or an op that stays as it is.
struct Unit {
  int group = -1;
  Operation *op = nullptr;
  int64_t key = 0; // place in program order: a kernel stands where its last member stood
  SmallVector<Operation *> ops;
  SmallVector<Value> inputs;
  SmallVector<size_t> successors;
  int64_t missing = 0; // predecessors that are not emitted yet
};

class Outliner {
public:
  explicit Outliner(GraphOp graph) : graph(graph), groups(graph) {}

  LogicalResult run() {
    collectUnits();
    connectUnits();
    Operation *end = graph.getBlock()->getTerminator();
    auto later = [&](size_t a, size_t b) { return units[a].key > units[b].key; };
    std::priority_queue<size_t, std::vector<size_t>, decltype(later)> ready(later);
    for (size_t index = 0; index < units.size(); ++index)
      if (units[index].missing == 0)
        ready.push(index);
    size_t emitted = 0;
    for (; !ready.empty(); ++emitted) {
      Unit &unit = units[ready.top()];
      ready.pop();
      if (unit.op)
        unit.op->moveBefore(end);
      else if (failed(outline(unit, end)))
        return failure();
      for (size_t successor : unit.successors)
        if (--units[successor].missing == 0)
          ready.push(successor);
    }
    if (emitted != units.size())
      return graph.emitError("form-kernels made kernels that wait for each other");
    eraseOutlined();
    return success();
  }

private:
  /// Erases what kernels have cloned. Views and members alternate in chains, so no sweep in block order would
  /// do.
  void eraseOutlined() {
    llvm::SetVector<Operation *> pending;
    for (Operation &op : *graph.getBlock())
      pending.insert(&op);
    while (!pending.empty()) {
      Operation *op = pending.pop_back_val();
      if (!isOpTriviallyDead(op))
        continue;
      for (Value operand : op->getOperands())
        if (Operation *source = operand.getDefiningOp())
          pending.insert(source);
      op->erase();
    }
  }

  void collectUnits() {
    for (auto [index, group] : llvm::enumerate(groups.groups())) {
      if (group.members.empty())
        continue;
      Unit unit;
      unit.group = static_cast<int>(index);
      unit.key = groups.position(group.members.back());
      groups.contents(group, unit.ops, unit.inputs);
      for (Operation *member : group.members)
        unitOf[member] = units.size();
      units.push_back(std::move(unit));
    }
    for (Operation &op : graph.getBlock()->without_terminator()) {
      if (unitOf.contains(&op) || isa<MapOp, ReduceOp, BroadcastOp>(op))
        continue;
      Unit unit;
      unit.op = &op;
      unit.key = groups.position(&op);
      unitOf[&op] = units.size();
      units.push_back(std::move(unit));
    }
  }

  void connectUnits() {
    for (size_t index = 0; index < units.size(); ++index) {
      llvm::DenseSet<size_t> before;
      auto need = [&](Operation *op) {
        if (auto found = unitOf.find(op); found != unitOf.end() && found->second != index)
          before.insert(found->second);
      };
      Unit &unit = units[index];
      auto needValue = [&](Value value) {
        if (Operation *op = value.getDefiningOp())
          need(op);
      };
      if (unit.op) {
        llvm::for_each(unit.op->getOperands(), needValue);
        llvm::for_each(groups.stateOrder(unit.op), need);
      } else {
        llvm::for_each(unit.inputs, needValue);
      }
      unit.missing = static_cast<int64_t>(before.size());
      for (size_t source : before)
        units[source].successors.push_back(index);
    }
  }

  LogicalResult outline(Unit &unit, Operation *end) {
    const KernelGroup &group = groups.groups()[unit.group];
    // Values that only become state come last: the plan appends states to a command's results.
    SmallVector<Value> outputs, states;
    for (Operation *member : group.members)
      if (Value value = member->getResult(0); groups.isStored(value)) {
        bool written = value.hasOneUse() && isa<WriteOp>(*value.user_begin());
        (written ? states : outputs).push_back(value);
      }
    outputs.append(states);
    OpBuilder builder(end);
    Operation *last = group.members.back();
    SmallVector<Value> inputs;
    for (Value input : unit.inputs)
      inputs.push_back(replaced.lookupOrDefault(input));
    auto settings =
        builder.getDictionaryAttr({builder.getNamedAttr("columns", builder.getI64IntegerAttr(group.columns)),
                                   builder.getNamedAttr("rows", builder.getI64IntegerAttr(group.rows))});
    auto kernel = KernelOp::create(builder, last->getLoc(), TypeRange(ValueRange(outputs)),
                                   group.byColumns ? "columns" : "rows", inputs, settings);
    if (OriginAttr origin = originOf(last))
      setOrigin(kernel, origin);
    Block &body = kernel.getBody().emplaceBlock();
    IRMapping mapping;
    for (Value input : unit.inputs)
      mapping.map(input, body.addArgument(input.getType(), input.getLoc()));
    builder.setInsertionPointToStart(&body);
    for (Operation *op : unit.ops) {
      Operation *copy = builder.clone(*op, mapping);
      // An op that several kernels hold is useful work in the first and done again in the others.
      if (OriginAttr origin = originOf(op); origin && !held.insert(op).second)
        setOrigin(copy, withDirection(origin, "recompute"));
    }
    SmallVector<Value> yielded;
    for (Value output : outputs)
      yielded.push_back(mapping.lookup(output));
    YieldOp::create(builder, kernel.getLoc(), yielded);
    for (auto [output, result] : llvm::zip(outputs, kernel.getResults())) {
      replaced.map(output, result);
      // Later kernels clone these ops, so only what stays reads the new value.
      output.replaceUsesWithIf(result, [&](OpOperand &use) { return keepsUse(use.getOwner()); });
    }
    return readKernelProgram(kernel);
  }

  bool keepsUse(Operation *user) const {
    auto found = unitOf.find(user);
    return isa<ReturnOp>(user) || (found != unitOf.end() && units[found->second].op);
  }

  GraphOp graph;
  KernelGroups groups;
  std::vector<Unit> units;
  llvm::DenseMap<Operation *, size_t> unitOf;
  IRMapping replaced;
  llvm::DenseSet<Operation *> held; // ops that some kernel holds
};

struct FormKernels : impl::FormKernelsBase<FormKernels> {
  void runOnOperation() override {
    for (GraphOp graph : getOperation().getOps<GraphOp>())
      if (failed(Outliner(graph).run()))
        return signalPassFailure();
  }
};

} // namespace
} // namespace sluice
