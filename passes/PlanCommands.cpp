#include "dialects/sluice/ops/Answers.h"
#include "passes/Passes.h"
#include "passes/PlanValues.h"
#include "passes/Rewriting.h"

#include "codegen/kernel/Identity.h"
#include "codegen/kernel/Tiling.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace sluice {
#define GEN_PASS_DEF_FORMCOMMANDS
#include "passes/Passes.h.inc"

namespace {

/// How many of an op's last results go into state, and how.
struct Fold {
  SmallVector<Operation *> effects; // write or accumulate ops, one a folded result
  bool accumulates = false;
};

class CommandBuilder {
public:
  CommandBuilder(GraphOp graph, const StateMap &states)
      : graph(graph), states(states), builder(graph.getContext()) {
    for (ReadOp read : graph.getBlock()->getOps<ReadOp>())
      reads[read.getStateAttr()].push_back(read);
  }

  LogicalResult run() {
    int64_t position = 0;
    for (Operation &op : *graph.getBlock())
      positions[&op] = position++;
    if (failed(separateOutputs()))
      return failure();
    for (Operation &op : llvm::make_early_inc_range(graph.getBlock()->without_terminator())) {
      if (folded.contains(&op)) {
        folded.erase(&op);
        op.erase();
      } else if (auto write = dyn_cast<WriteOp>(op)) {
        copyToState(write);
      } else if (!isa<ReadOp, ReshapeOp, plan::CommandOp>(op) && failed(makeCommand(&op))) {
        return failure();
      }
    }
    refreshDerivedState();
    connect();
    return success();
  }

private:
  /// An output has memory of its own that no input, state or other output shares.
  LogicalResult separateOutputs() {
    auto end = cast<ReturnOp>(graph.getBlock()->getTerminator());
    llvm::DenseSet<Value> taken;
    for (OpOperand &operand : end->getOpOperands()) {
      Value storage = storageOf(operand.get());
      bool own = storage.getDefiningOp() && !isa<ReadOp>(storage.getDefiningOp());
      if (own && taken.insert(storage).second)
        continue;
      builder.setInsertionPoint(end);
      operand.set(copyOf(operand.get(), originOf(end)));
    }
    return success();
  }

  Value copyOf(Value value, OriginAttr origin) {
    auto command = startCommand(value.getLoc(), "copy", {value}, {value.getType()}, {},
                                builder.getDictionaryAttr({}), origin);
    YieldOp::create(builder, value.getLoc(), command.getBody().getArgument(0));
    builder.setInsertionPointAfter(command);
    return command.getResult(0);
  }

  /// The results of `op` that can be written straight to their states: a suffix of its results.
  Fold foldOf(Operation *op, StringRef kind) {
    Fold fold;
    for (Value result : llvm::reverse(op->getResults())) {
      Operation *effect = result.hasOneUse() ? *result.user_begin() : nullptr;
      bool accumulates = isa_and_nonnull<AccumulateOp>(effect);
      if (!accumulates &&
          (!isa_and_nonnull<WriteOp>(effect) || !mayWriteEarly(op, kind, cast<WriteOp>(effect), result)))
        break;
      if (!fold.effects.empty() && fold.accumulates != accumulates)
        break;
      fold.accumulates = accumulates;
      fold.effects.insert(fold.effects.begin(), effect);
    }
    return fold;
  }

  /// Whether the state's old value is no longer needed once `op` runs, or `op` itself may overwrite it.
  bool mayWriteEarly(Operation *op, StringRef kind, WriteOp write, Value result) {
    for (ReadOp read : reads.lookup(write.getStateAttr())) {
      if (positions.lookup(read) > positions.lookup(write))
        continue;
      SmallVector<Operation *> readers;
      readersOf(read.getValue(), readers);
      for (Operation *reader : readers) {
        if (reader == op && !mayOverwrite(op, kind, read.getValue(), result))
          return false;
        if (reader != op && (positions.lookup(reader) > positions.lookup(op) || !positions.contains(reader)))
          return false;
      }
    }
    return true;
  }

  static bool mayOverwrite(Operation *op, StringRef kind, Value state, Value result) {
    if (kind == "adamw" || kind == "masked_adamw" || kind == "update_mask")
      return true;
    auto kernel = dyn_cast<KernelOp>(op);
    if (!kernel || kind != "launch")
      return false;
    FailureOr<KernelProgram> program = readKernelProgram(kernel);
    if (failed(program))
      return false;
    for (OpOperand &operand : op->getOpOperands())
      if (storageOf(operand.get()) == state &&
          !program->mayOverwrite(static_cast<int>(operand.getOperandNumber()),
                                 static_cast<int>(cast<OpResult>(result).getResultNumber())))
        return false;
    return true;
  }

  plan::CommandOp startCommand(Location loc, StringRef kind, ArrayRef<Value> inputs, ArrayRef<Type> results,
                               ArrayRef<Attribute> updated, DictionaryAttr settings, OriginAttr origin) {
    Attribute nowhere = plan::SlotAttr::get(builder.getContext(), "", 0);
    auto command = plan::CommandOp::create(
        builder, loc, results, builder.getStringAttr(kind), builder.getI64IntegerAttr(0), inputs,
        builder.getArrayAttr(SmallVector<Attribute>(inputs.size(), nowhere)),
        builder.getArrayAttr(SmallVector<Attribute>(results.size(), nowhere)), builder.getArrayAttr(updated),
        builder.getDenseI64ArrayAttr({}), settings);
    if (origin)
      setOrigin(command, origin);
    Block &body = command.getBody().emplaceBlock();
    for (Value input : inputs)
      body.addArgument(input.getType(), loc);
    for (Attribute state : updated) {
      StateOp op = states.lookup(cast<FlatSymbolRefAttr>(state).getAttr());
      body.addArgument(op.getType(), loc);
    }
    builder.setInsertionPointToStart(&body);
    return command;
  }

  void copyToState(WriteOp write) {
    builder.setInsertionPoint(write);
    auto command = startCommand(write.getLoc(), "copy", {write.getValue()}, {}, {write.getStateAttr()},
                                builder.getDictionaryAttr({}), originOf(write));
    YieldOp::create(builder, write.getLoc(), command.getBody().getArgument(0));
    positions[command] = positions.lookup(write);
    write.erase();
  }

  LogicalResult makeCommand(Operation *op) {
    std::string kind;
    NamedAttrList settings;
    if (auto kernel = dyn_cast<KernelOp>(op)) {
      bool generated = kernel.getKind() == "rows" || kernel.getKind() == "columns";
      kind = generated ? "launch" : kernel.getKind().str();
      if (generated) {
        FailureOr<KernelProgram> program = readKernelProgram(kernel);
        if (failed(program))
          return failure();
        settings.set("kernel", builder.getStringAttr(kernelName(kernel)));
        settings.set("domain", builder.getStringAttr(domainName(*program)));
        settings.set("rows", builder.getI64IntegerAttr(program->rows));
        settings.set("columns", builder.getI64IntegerAttr(program->columns));
        settings.set("tiles", builder.getI64IntegerAttr(tilingOf(*program).tiles));
      } else {
        settings.append(kernel.getSettings().getValue());
      }
    } else if (auto lowerable = dyn_cast<Lowerable>(op); lowerable && !lowerable.commandKind().empty()) {
      kind = lowerable.commandKind();
      lowerable.commandAttributes(settings);
    } else {
      return op->emitOpError("reaches the plan without a command; run form-kernels first");
    }

    Fold fold = foldOf(op, kind);
    if (fold.accumulates)
      settings.set("accumulate", builder.getI64IntegerAttr(1));
    SmallVector<Attribute> updated;
    for (Operation *effect : fold.effects)
      updated.push_back(effect->getAttr("state"));
    size_t kept = op->getNumResults() - updated.size();
    SmallVector<Type> results(llvm::ArrayRef<Type>(SmallVector<Type>(op->getResultTypes())).take_front(kept));

    builder.setInsertionPoint(op);
    auto command = startCommand(op->getLoc(), kind, SmallVector<Value>(op->getOperands()), results, updated,
                                settings.getDictionary(builder.getContext()), originOf(op));
    Block &body = command.getBody().front();
    Operation *inner = op->clone();
    builder.insert(inner);
    for (OpOperand &operand : inner->getOpOperands())
      operand.set(body.getArgument(operand.getOperandNumber()));
    SmallVector<Value> yielded(inner->getResults().take_front(kept));
    for (size_t i = 0; i < updated.size(); ++i) {
      Value value = inner->getResult(kept + i);
      if (fold.accumulates) {
        auto sum = AddOp::create(builder, op->getLoc(), body.getArgument(inner->getNumOperands() + i), value);
        if (OriginAttr origin = originOf(fold.effects[i]))
          setOrigin(sum, origin);
        if (Attribute whole = fold.effects[i]->getAttr(wholeElementsAttributeName))
          sum->setAttr(wholeElementsAttributeName, whole);
        value = sum.getY();
      }
      yielded.push_back(value);
    }
    YieldOp::create(builder, op->getLoc(), yielded);
    positions[command] = positions.lookup(op);
    command->setAttr("plan.flops", builder.getStringAttr(contractionFlops(command)));

    for (size_t i = 0; i < kept; ++i)
      op->getResult(i).replaceAllUsesWith(command.getResult(i));
    for (Operation *effect : fold.effects) {
      effect->dropAllReferences();
      folded.insert(effect);
    }
    op->erase();
    return success();
  }

  static std::string contractionFlops(plan::CommandOp command) {
    Count total = 0;
    command.getBody().walk([&](Operation *op) {
      if (auto countable = dyn_cast<Countable>(op)) {
        OpCounts counts = countable.count();
        total += counts.ideal.contraction + counts.recompute.contraction;
      }
    });
    return toDecimal(total);
  }

  /// Packed copies of parameters are written anew after the last command that changes one.
  void refreshDerivedState() {
    bool writesParameter = false;
    for (plan::CommandOp command : commandsOf(graph))
      for (Attribute state : command.getStates()) {
        StateOp op = states.lookup(cast<FlatSymbolRefAttr>(state).getAttr());
        writesParameter |= op && op.getRole() == "parameter";
      }
    if (!writesParameter)
      return;
    Operation *end = graph.getBlock()->getTerminator();
    builder.setInsertionPoint(end);
    startCommand(end->getLoc(), "refresh_derived_state", {}, {}, {}, builder.getDictionaryAttr({}),
                 OriginAttr::get(builder.getContext(), "", -1, "optimizer", "update"));
    YieldOp::create(builder, end->getLoc(), ValueRange());
  }

  /// Numbers the commands and says which wait for which: values, and state in the order of its changes.
  void connect() {
    Dependencies dependencies;
    llvm::DenseMap<Value, int64_t> producer;
    llvm::DenseMap<Attribute, int64_t> writer;
    llvm::DenseMap<Attribute, SmallVector<int64_t>> readers;
    SmallVector<int64_t> parameterWriters;
    for (auto [number, command] : llvm::enumerate(commandsOf(graph))) {
      auto index = static_cast<int64_t>(number);
      SmallVector<int64_t> wanted;
      for (Value input : command.getInputs()) {
        if (auto found = producer.find(storageOf(input)); found != producer.end())
          wanted.push_back(found->second);
        if (Attribute state = stateOf(input)) {
          if (auto found = writer.find(state); found != writer.end())
            wanted.push_back(found->second);
          readers[state].push_back(index);
        }
      }
      for (Attribute state : command.getStates()) {
        if (auto found = writer.find(state); found != writer.end())
          wanted.push_back(found->second);
        for (int64_t reader : readers[state])
          if (reader != index)
            wanted.push_back(reader);
        readers[state].clear();
        writer[state] = index;
      }
      if (command.getKind() == "refresh_derived_state")
        for (auto [state, last] : writer)
          wanted.push_back(last);
      for (Value result : command.getResults())
        producer[result] = index;
      command.setNumber(index);
      command.setDependencies(dependencies.add(wanted));
    }
  }

  GraphOp graph;
  const StateMap &states;
  OpBuilder builder;
  llvm::DenseMap<Attribute, SmallVector<ReadOp>> reads;
  llvm::DenseMap<Operation *, int64_t> positions;
  llvm::DenseSet<Operation *> folded;
};

struct FormCommands : impl::FormCommandsBase<FormCommands> {
  void runOnOperation() override {
    StateMap states = stateMap(getOperation());
    for (GraphOp graph : getOperation().getOps<GraphOp>())
      if (failed(CommandBuilder(graph, states).run()))
        return signalPassFailure();
  }
};

} // namespace
} // namespace sluice
