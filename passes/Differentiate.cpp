#include "dialects/sluice/Dims.h"
#include "passes/Passes.h"
#include "passes/Rewriting.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace sluice {
#define GEN_PASS_DEF_DIFFERENTIATE
#include "passes/Passes.h.inc"

namespace {

/// Only tensors of floats carry cotangents; a routing assignment and ids do not.
bool carriesCotangent(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && isa<FloatType>(type.getElementType());
}

/// The reverse walk over one graph. Sets of values are only asked, never iterated: order is that of the
/// program.
class ReverseWalk {
public:
  explicit ReverseWalk(GraphOp graph)
      : graph(graph), returnOp(cast<ReturnOp>(graph.getBlock()->getTerminator())), builder(returnOp) {
    for (Operation &op : graph.getBlock()->without_terminator())
      forward.push_back(&op);
  }

  /// Starts from d(objective)/d(value) = seed.
  LogicalResult seed(Value value, Value seed) {
    return contribute(value, seed, originOf(seed.getDefiningOp()));
  }

  LogicalResult run(ArrayRef<Value> objectives) {
    sweep(objectives);
    if (failed(reportMissing()))
      return failure();
    for (Operation *op : llvm::reverse(forward))
      if (isActive(op) && failed(differentiate(op)))
        return failure();
    return success();
  }

  OpBuilder &getBuilder() { return builder; }

private:
  /// Forward: what depends on a parameter. Backward: what the objectives depend on.
  void sweep(ArrayRef<Value> objectives) {
    for (Operation *op : forward) {
      bool reads =
          isa<ReadOp>(op) || llvm::any_of(op->getOperands(), [&](Value v) { return varied.contains(v); });
      for (Value result : op->getResults())
        if (reads && carriesCotangent(result))
          varied.insert(result);
    }
    useful.insert(objectives.begin(), objectives.end());
    for (Operation *op : llvm::reverse(forward))
      if (llvm::any_of(op->getResults(), [&](Value v) { return carriesCotangent(v) && useful.contains(v); }))
        useful.insert(op->operand_begin(), op->operand_end());
  }

  bool isActive(Operation *op) const {
    return !isa<ReadOp>(op) && llvm::any_of(op->getResults(), [&](Value v) {
      return varied.contains(v) && useful.contains(v);
    }) && llvm::any_of(op->getOperands(), [&](Value v) { return varied.contains(v); });
  }

  /// One report of every op on the path that has no adjoint.
  LogicalResult reportMissing() {
    SmallVector<Operation *> missing;
    for (Operation *op : forward)
      if (isActive(op) && !isa<Differentiable>(op))
        missing.push_back(op);
    if (missing.empty())
      return success();
    InFlightDiagnostic diagnostic = missing.front()->emitError();
    diagnostic << missing.size() << (missing.size() == 1 ? " op lies" : " ops lie")
               << " between the parameters and the objective but cannot be differentiated:";
    for (Operation *op : missing) {
      OriginAttr origin = originOf(op);
      diagnostic << "\n  " << op->getName().getStringRef() << " in '" << origin.getPath() << "' ("
                 << origin.getRole() << ")";
    }
    for (Operation *op : ArrayRef<Operation *>(missing).drop_front())
      diagnostic.attachNote(op->getLoc()) << op->getName().getStringRef() << " is here";
    return failure();
  }

  /// What an op's buildAdjoint sees.
  struct Adjoint : AdjointBuilder {
    Adjoint(ReverseWalk &walk, Operation *op, OriginAttr origin)
        : AdjointBuilder(walk.builder, op->getLoc()), walk(walk), op(op), origin(origin) {}
    Value cotangent(unsigned index) const override { return walk.cotangents.lookup(op->getResult(index)); }
    bool needed(unsigned index) const override { return walk.varied.contains(op->getOperand(index)); }
    void setOperandCotangent(unsigned index, Value value) override { handed.emplace_back(index, value); }
    ReverseWalk &walk;
    Operation *op;
    OriginAttr origin;
    SmallVector<std::pair<unsigned, Value>> handed;
  };

  LogicalResult differentiate(Operation *op) {
    OriginAttr origin = withDirection(originOf(op), "backward");
    Adjoint adjoint(*this, op, origin);
    bool reached = llvm::any_of(op->getResults(), [&](Value v) { return cotangents.contains(v); });
    if (!reached)
      return success();
    Operation *last = returnOp->getPrevNode();
    if (failed(cast<Differentiable>(op).buildAdjoint(adjoint)))
      return op->emitError() << "the adjoint of " << op->getName() << " could not be built";
    llvm::SmallPtrSet<Operation *, 8> made;
    for (Operation *next = last->getNextNode(); next != returnOp; next = next->getNextNode()) {
      setOrigin(next, origin);
      made.insert(next);
      if (failed(checkReads(op, next, made)))
        return failure();
    }
    for (auto &[index, value] : adjoint.handed)
      if (value && failed(contribute(op->getOperand(index), value, origin)))
        return failure();
    return success();
  }

  /// An adjoint may use the cotangents of its op's results, what it made itself, and the forward values it
  /// declares.
  LogicalResult checkReads(Operation *op, Operation *user, const llvm::SmallPtrSetImpl<Operation *> &made) {
    auto differentiable = cast<Differentiable>(op);
    llvm::SmallDenseSet<Value> allowed;
    for (Value result : op->getResults())
      allowed.insert(cotangents.lookup(result));
    for (int64_t index : differentiable.adjointReadsOperands())
      if (index < op->getNumOperands())
        allowed.insert(op->getOperand(index));
    // A mask is data of the product, as a routing assignment is: the adjoint keeps the same weights.
    for (Value operand : op->getOperands())
      if (isa<MaskType>(operand.getType()))
        allowed.insert(operand);
    for (int64_t index : differentiable.adjointReadsResults())
      allowed.insert(op->getResult(index));
    // Bodies of the dialect's ops read their own arguments only, so the op's operands are all it reads.
    for (Value operand : user->getOperands())
      if (!made.contains(operand.getDefiningOp()) && !allowed.contains(operand))
        return op->emitError() << "the adjoint of " << op->getName() << " reads a forward value of type "
                               << operand.getType()
                               << " that it does not declare (adjointReadsOperands, adjointReadsResults)";
    return success();
  }

  /// Adds `value` to the cotangent of `target`; that of a parameter goes to its gradient state at once, so
  /// that it need not live longer.
  LogicalResult contribute(Value target, Value value, OriginAttr origin) {
    if (!varied.empty() && !varied.contains(target))
      return success();
    if (target.getType() != value.getType())
      return value.getDefiningOp()->emitError() << "the cotangent of a value " << shapeText(target.getType())
                                                << " has shape " << shapeText(value.getType());
    if (auto read = target.getDefiningOp<ReadOp>()) {
      auto accumulate = AccumulateOp::create(
          builder, value.getLoc(),
          FlatSymbolRefAttr::get(builder.getContext(), (read.getState() + ".gradient").str()), value);
      setOrigin(accumulate, origin);
      return success();
    }
    Value &sum = cotangents[target];
    if (!sum) {
      sum = value;
      return success();
    }
    auto add = AddOp::create(builder, value.getLoc(), sum, value);
    setOrigin(add, withDirection(originOf(target.getDefiningOp()), "backward"));
    sum = add.getY();
    return success();
  }

  GraphOp graph;
  ReturnOp returnOp;
  OpBuilder builder; // always just before the return
  SmallVector<Operation *> forward;
  llvm::DenseSet<Value> varied, useful;
  llvm::DenseMap<Value, Value> cotangents;
};

struct Differentiate : impl::DifferentiateBase<Differentiate> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    GraphOp graph = findGraph(module, "model");
    if (!graph || outputIndex(graph, "loss_sum") < 0 || outputIndex(graph, "tokens") < 0) {
      module.emitError()
          << "differentiate needs a graph @model with inputs tokens and targets and the output 'loss_sum'";
      return signalPassFailure();
    }
    graph.setSymName("accumulate");
    filterOutputs(graph, [](StringRef name) { return name != "logits"; });
    createGradientStates(module);

    auto returnOp = cast<ReturnOp>(graph.getBlock()->getTerminator());
    ReverseWalk walk(graph);
    SmallVector<Value> objectives, seeds;
    seedObjective(module, returnOp, walk.getBuilder(), objectives, seeds);
    for (auto [objective, seed] : llvm::zip(objectives, seeds))
      if (failed(walk.seed(objective, seed)))
        return signalPassFailure();
    if (failed(walk.run(objectives)))
      return signalPassFailure();
    eraseDeadOps(graph);
    remarkUnreached(module, graph);
  }

private:
  /// Objective: loss_sum + sum of weight * tokens * auxiliary loss; tokens is a constant.
  void seedObjective(ModuleOp module, ReturnOp returnOp, OpBuilder &builder,
                     SmallVectorImpl<Value> &objectives, SmallVectorImpl<Value> &seeds) {
    OriginAttr origin = OriginAttr::get(module.getContext(), "", -1, "loss", "backward");
    GraphOp graph = returnOp->getParentOfType<GraphOp>();
    auto weights = module->getAttrOfType<DictionaryAttr>("sluice.auxiliary_weights");
    Value tokens = returnOp.getValues()[outputIndex(graph, "tokens")];
    for (auto [value, nameAttr] : llvm::zip(returnOp.getValues(), returnOp.getNames())) {
      StringRef name = cast<StringAttr>(nameAttr).getValue();
      Operation *seed = nullptr;
      if (name == "loss_sum")
        seed = ConstantOp::create(
            builder, value.getLoc(), builder.getF64FloatAttr(1.0),
            builder.getDenseI64ArrayAttr(cast<RankedTensorType>(value.getType()).getShape()));
      else if (name.consume_front("auxiliary/"))
        seed = ScaleOp::create(builder, value.getLoc(), tokens, cast<FloatAttr>(weights.get(name)));
      if (!seed)
        continue;
      setOrigin(seed, origin);
      objectives.push_back(value);
      seeds.push_back(seed->getResult(0));
    }
  }

  void createGradientStates(ModuleOp module) {
    OpBuilder builder(module.getContext());
    builder.setInsertionPoint(*module.getOps<GraphOp>().begin());
    auto zero = FillAttr::get(module.getContext(), builder.getF64FloatAttr(0.0));
    for (StateOp state : statesOf(module, "parameter")) {
      auto gradient = cast<StateOp>(builder.clone(*state));
      gradient.setSymName((state.getSymName() + ".gradient").str());
      gradient.setInitAttr(zero);
      gradient.setRole("gradient");
      gradient.setCheckpoint((state.getCheckpoint() + ".gradient").str());
    }
  }

  void remarkUnreached(ModuleOp module, GraphOp graph) {
    llvm::DenseSet<StringAttr> reached;
    graph.walk([&](AccumulateOp op) { reached.insert(op.getStateAttr().getAttr()); });
    for (StateOp state : statesOf(module, "gradient"))
      if (!reached.contains(state.getSymNameAttr()))
        emitRemark(state.getLoc()) << "parameter '" << state.getParameter()
                                   << "' gets no gradient: the objective does not depend on it";
  }
};

} // namespace
} // namespace sluice
