#include "codegen/kernel/Program.h"
#include "dialects/sluice/Build.h"
#include "passes/Passes.h"
#include "passes/Rewriting.h"

using namespace mlir;

namespace sluice {
#define GEN_PASS_DEF_DECOMPOSEOPS
#include "passes/Passes.h.inc"

namespace {

ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// Builds ops in front of one op, all with that op's origin.
class Replacement {
public:
  explicit Replacement(Operation *op) : builder(op), loc(op->getLoc()), origin(originOf(op)) {
    builder.setListener(&listener);
    listener.origin = origin;
  }
  Value reduce(Value x, ArrayRef<int64_t> axes, StringRef kind) {
    return ReduceOp::create(builder, loc, x, builder.getDenseI64ArrayAttr(axes), builder.getStringAttr(kind));
  }
  Value reshape(Value x, ArrayRef<int64_t> shape) {
    if (shapeOf(x) == shape)
      return x;
    return ReshapeOp::create(builder, loc, x, builder.getDenseI64ArrayAttr(shape));
  }

  OpBuilder builder;
  Location loc;

private:
  struct OriginListener : OpBuilder::Listener {
    OriginAttr origin;
    void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
      if (origin && !originOf(op) && isa_and_nonnull<GraphOp, KernelOp>(op->getParentOp()))
        setOrigin(op, origin);
    }
  };
  OriginAttr origin;
  OriginListener listener;
};

/// Whether `op` is a sum that a kernel computes as it is.
bool isKernelReduce(ReduceOp op) {
  ArrayRef<int64_t> shape = shapeOf(op.getX());
  int64_t last = static_cast<int64_t>(shape.size()) - 1;
  if (op.getAxes().size() == 1 && op.getAxes()[0] == last)
    return shape[last] != 1;
  for (int64_t axis = 0; axis < last; ++axis)
    if (!llvm::is_contained(op.getAxes(), axis) && shape[axis] != 1)
      return false;
  return !llvm::is_contained(op.getAxes(), last) && shape[last] != 1;
}

/// The reduction as reductions over the last axis or all leading axes, with views and transpositions between.
Value splitReduce(Replacement &to, Value x, ArrayRef<int64_t> axes, StringRef kind) {
  SmallVector<int64_t> shape(shapeOf(x)), result(shape);
  SmallVector<int64_t> summed, kept;
  for (int64_t axis : axes)
    result[axis] = 1;
  for (int64_t axis = 0; axis < static_cast<int64_t>(shape.size()); ++axis)
    if (shape[axis] != 1)
      (llvm::is_contained(axes, axis) ? summed : kept).push_back(axis);
  if (summed.empty())
    return to.reshape(x, result);
  auto product = [&](ArrayRef<int64_t> list) {
    int64_t size = 1;
    for (int64_t axis : list)
      size *= shape[axis];
    return size;
  };
  int64_t depth = product(summed), width = product(kept);
  bool summedLast = kept.empty() || kept.back() < summed.front();
  bool summedFirst = kept.empty() || summed.back() < kept.front();
  if (summedLast)
    return to.reshape(to.reduce(to.reshape(x, {width, depth}), {1}, kind), result);
  if (!summedFirst) {
    // Neither end: the summed axes are moved to the front.
    SmallVector<int64_t> permutation(summed);
    permutation.append(kept);
    SmallVector<int64_t> sizes;
    for (int64_t size : shape)
      if (size != 1)
        sizes.push_back(size);
    SmallVector<int64_t> squeezed;
    for (int64_t axis : permutation)
      squeezed.push_back(
          llvm::count_if(ArrayRef<int64_t>(shape).take_front(axis), [](int64_t size) { return size != 1; }));
    x = TransposeOp::create(to.builder, to.loc, to.reshape(x, sizes),
                            to.builder.getDenseI64ArrayAttr(squeezed));
  }
  return to.reshape(to.reduce(to.reshape(x, {depth, width}), {0}, kind), result);
}

/// The kind of command that would compute `op`, or an empty string.
std::string commandOf(Operation *op) {
  if (auto kernel = dyn_cast_or_null<KernelOp>(op))
    return kernel.getKind().str();
  auto lowerable = dyn_cast_or_null<Lowerable>(op);
  return lowerable ? lowerable.commandKind() : "";
}

/// Whether the command that computes `value` can add it to a state instead (docs/commands.md: `accumulate`).
bool canAccumulate(Value value) {
  std::string kind = commandOf(value.getDefiningOp());
  bool able = llvm::is_contained({"gemm", "masked_weight_gradient", "embedding_gradient",
                                  "grouped_weight_gradient", "masked_grouped_weight_gradient", "grouped_sum",
                                  "contract", "experts_down_weight_gradient", "experts_up_weight_gradient",
                                  "linear_cross_entropy_gradient", "gather_gradient"},
                                 kind);
  if (!able || !value.hasOneUse())
    return false;
  // One attribute speaks for all results, so all must be gradient sums, once each.
  if (kind == "linear_cross_entropy_gradient")
    return cast<OpResult>(value).getResultNumber() == 2;
  return llvm::all_of(value.getDefiningOp()->getResults(), [](Value result) {
    return result.hasOneUse() && isa<AccumulateOp>(*result.user_begin());
  });
}

struct DecomposeOps : impl::DecomposeOpsBase<DecomposeOps> {
  void runOnOperation() override {
    for (GraphOp graph : getOperation().getOps<GraphOp>()) {
      splitAccumulates(graph);
      while (decompose(graph))
        ;
      lowerAccumulates(graph);
      for (ReduceOp reduce : llvm::make_early_inc_range(graph.getBlock()->getOps<ReduceOp>()))
        if (!isKernelReduce(reduce)) {
          Replacement to(reduce);
          reduce.getY().replaceAllUsesWith(
              splitReduce(to, reduce.getX(), reduce.getAxes(), reduce.getKind()));
          reduce.erase();
        }
      eraseDeadOps(graph);
    }
  }

  /// g += a + b becomes g += a, g += b: each term's command adds to the state by itself.
  static void splitAccumulates(GraphOp graph) {
    SmallVector<AccumulateOp> pending(graph.getBlock()->getOps<AccumulateOp>());
    while (!pending.empty()) {
      AccumulateOp op = pending.pop_back_val();
      auto sum = op.getValue().getDefiningOp<AddOp>();
      if (!sum || !sum.getY().hasOneUse())
        continue;
      OpBuilder builder(op);
      for (Value term : {sum.getA(), sum.getB()}) {
        auto part = AccumulateOp::create(builder, op.getLoc(), op.getStateAttr(), term);
        setOrigin(part, originOf(op));
        pending.push_back(part);
      }
      op.erase();
      sum.erase();
    }
  }

  static bool decompose(GraphOp graph) {
    bool changed = false;
    for (Operation &op : llvm::make_early_inc_range(*graph.getBlock())) {
      auto lowerable = dyn_cast<Lowerable>(op);
      if (!lowerable || isKernelPrimitive(&op) || !lowerable.commandKind().empty())
        continue;
      Replacement to(&op);
      SmallVector<Value> results;
      if (failed(lowerable.decompose(to.builder, results)))
        continue; // reported by check-lowering
      op.replaceAllUsesWith(results);
      op.erase();
      changed = true;
    }
    return changed;
  }

  static void lowerAccumulates(GraphOp graph) {
    for (AccumulateOp op : llvm::make_early_inc_range(graph.getBlock()->getOps<AccumulateOp>())) {
      if (canAccumulate(op.getValue()))
        continue;
      Replacement to(op);
      auto old = ReadOp::create(to.builder, to.loc, op.getValue().getType(), op.getStateAttr());
      Value sum = buildMap(to.builder, to.loc, {old.getValue(), op.getValue()},
                           [](OpBuilder &builder, Location loc, ValueRange values) {
                             return Scalars(builder, loc).add(values[0], values[1]);
                           });
      WriteOp::create(to.builder, to.loc, op.getStateAttr(), sum);
      op.erase();
    }
  }
};

} // namespace
} // namespace sluice
