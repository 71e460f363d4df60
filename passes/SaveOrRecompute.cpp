#include "passes/Passes.h"
#include "passes/Rewriting.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace sluice {
#define GEN_PASS_DEF_SAVEORRECOMPUTE
#include "passes/Passes.h.inc"

namespace {

/// Bytes of a value as the plan stores it (a routing assignment is a buffer of 32-bit integers).
int64_t bytesOf(Value value) {
  if (auto routing = dyn_cast<RoutingType>(value.getType()))
    return 4 * routing.bufferSize();
  if (auto mask = dyn_cast<MaskType>(value.getType()))
    return mask.bufferBytes();
  auto tensor = cast<RankedTensorType>(value.getType());
  return tensor.getNumElements() * ((tensor.getElementTypeBitWidth() + 7) / 8);
}

bool isBackward(Operation *op) {
  OriginAttr origin = originOf(op);
  return origin && origin.getDirection() == "backward";
}

RecomputeCost costOf(Operation *op) {
  auto recomputable = dyn_cast<Recomputable>(op);
  return recomputable ? recomputable.recomputeCost() : RecomputeCost::Never;
}

/// The forward ops whose results the backward uses, and which of them are computed again.
class SavePlan {
public:
  explicit SavePlan(GraphOp graph) : graph(graph) {
    for (Operation &op : graph.getBlock()->without_terminator()) {
      if (isBackward(&op) || isa<ReadOp>(op))
        continue;
      if (llvm::any_of(op.getResults(), [](Value v) { return usedByBackward(v); }))
        candidates.insert(&op);
    }
    for (Operation *op : candidates)
      for (Value result : op->getResults())
        if (usedByBackward(result))
          save(result);
  }

  int64_t savedBytes() const { return total; }
  int64_t savedCount() const { return static_cast<int64_t>(users.size()); }
  ArrayRef<Operation *> ops() const { return candidates.getArrayRef(); }
  bool isRecomputed(Operation *op) const { return recomputed.contains(op); }

  /// Bytes that computing the op again would free: its results, less the operands that must then live longer.
  int64_t gain(Operation *op) const {
    int64_t bytes = 0;
    for (Value result : op->getResults())
      bytes += users.contains(result) ? bytesOf(result) : 0;
    llvm::SmallDenseSet<Value> counted;
    for (Value operand : op->getOperands())
      if (isForward(operand) && !users.contains(operand) && !recomputed.contains(operand.getDefiningOp()) &&
          counted.insert(operand).second)
        bytes -= bytesOf(operand);
    return bytes;
  }

  void recompute(Operation *op) {
    recomputed.insert(op);
    for (Value result : op->getResults())
      if (users.erase(result))
        total -= bytesOf(result);
    for (Value operand : op->getOperands())
      if (isForward(operand) && !recomputed.contains(operand.getDefiningOp())) {
        if (!users.contains(operand))
          save(operand);
        candidates.insert(operand.getDefiningOp()); // may be worth computing again in turn
      }
  }

  /// Clones the chosen ops just before their first backward use.
  void materialize() {
    if (recomputed.empty())
      return;
    IRMapping mapping;
    for (Operation &op : llvm::make_early_inc_range(*graph.getBlock()))
      if (isBackward(&op))
        for (OpOperand &operand : op.getOpOperands())
          operand.set(available(operand.get(), &op, mapping));
    // An op whose value only the backward read has moved there: it runs once, so it is no recomputation.
    for (auto [op, copy] : llvm::reverse(copies))
      if (isOpTriviallyDead(op)) {
        setOrigin(copy, originOf(op));
        op->erase();
      }
  }

private:
  static bool usedByBackward(Value value) { return llvm::any_of(value.getUsers(), isBackward); }
  /// Inputs and states live anyway.
  static bool isForward(Value value) {
    Operation *op = value.getDefiningOp();
    return op && !isa<ReadOp>(op) && !isBackward(op);
  }
  void save(Value value) {
    users.insert(value);
    total += bytesOf(value);
  }

  Value available(Value value, Operation *before, IRMapping &mapping) {
    Operation *op = value.getDefiningOp();
    if (!op || !recomputed.contains(op))
      return value;
    if (Value made = mapping.lookupOrNull(value))
      return made;
    for (Value operand : op->getOperands())
      available(operand, before, mapping);
    OpBuilder builder(before);
    Operation *clone = builder.clone(*op, mapping);
    setOrigin(clone, withDirection(originOf(op), "recompute"));
    copies.emplace_back(op, clone);
    return mapping.lookup(value);
  }

  GraphOp graph;
  llvm::SetVector<Operation *> candidates; // in program order; operands of recomputed ops follow
  llvm::DenseSet<Operation *> recomputed;
  llvm::DenseSet<Value> users;                             // saved values
  std::vector<std::pair<Operation *, Operation *>> copies; // of recomputed ops, operands first
  int64_t total = 0;
};

struct SaveOrRecompute : impl::SaveOrRecomputeBase<SaveOrRecompute> {
  using SaveOrRecomputeBase::SaveOrRecomputeBase;

  void runOnOperation() override {
    for (StringRef name : {"accumulate", "accumulate_dense"})
      if (GraphOp graph = findGraph(getOperation(), name))
        decide(graph);
  }

private:
  void decide(GraphOp graph) {
    SavePlan plan(graph);
    const int64_t limit = budget;
    const int64_t before = plan.savedBytes();
    // Later ops first: a view of a view is resolved in one sweep.
    SmallVector<Operation *> ops(plan.ops()); // choosing adds candidates
    for (Operation *op : llvm::reverse(ops))
      if (costOf(op) == RecomputeCost::Free && plan.gain(op) >= 0)
        choose(plan, op, "a view");
    while (limit > 0 && plan.savedBytes() > limit)
      if (!recomputeOneRound(plan))
        break;
    plan.materialize();
    eraseDeadOps(graph); // views that only the backward used

    emitRemark(graph.getLoc()) << "saved for the backward: " << plan.savedCount() << " values, "
                               << plan.savedBytes() << " bytes (" << before
                               << " bytes if nothing were computed again)";
    if (limit > 0 && plan.savedBytes() > limit)
      emitWarning(graph.getLoc()) << "saved values need " << plan.savedBytes()
                                  << " bytes, more than the budget of " << limit
                                  << "; the rest is costly or must not be computed again";
  }

  void choose(SavePlan &plan, Operation *op, StringRef why) {
    emitRemark(op->getLoc()) << "computed again: " << op->getName() << " in '" << originOf(op).getPath()
                             << "', " << why << ", frees " << plan.gain(op) << " bytes";
    plan.recompute(op);
  }

  /// One sweep over the cheap ops, those that free the most first, until the rest fits. False if none helps.
  bool recomputeOneRound(SavePlan &plan) {
    struct Choice {
      int64_t gain, index;
      Operation *op;
    };
    SmallVector<Choice> order;
    for (Operation *op : plan.ops())
      if (!plan.isRecomputed(op) && costOf(op) <= RecomputeCost::Cheap && plan.gain(op) > 0)
        order.push_back({plan.gain(op), static_cast<int64_t>(order.size()), op});
    llvm::sort(order, [](const Choice &a, const Choice &b) {
      return std::pair(-a.gain, a.index) < std::pair(-b.gain, b.index);
    });
    bool any = false;
    for (const Choice &choice : order) {
      if (plan.savedBytes() <= budget)
        break;
      if (plan.gain(choice.op) <= 0)
        continue; // an earlier choice changed the bill
      choose(plan, choice.op, "cheap");
      any = true;
    }
    return any;
  }
};

} // namespace
} // namespace sluice
