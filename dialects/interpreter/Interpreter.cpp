#include "dialects/interpreter/Interpreter.h"

#include "dialects/interpreter/ArenaCheck.h"
#include "dialects/interpreter/Counting.h"
#include "dialects/sluice/Dims.h"
#include "dialects/sluice/Notation.h"
#include "dialects/sluice/ops/MaskRules.h"
#include "dialects/sluice/ops/Place.h"
#include "dialects/sluice/ops/RoutingBuffer.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/raw_ostream.h"

#include <memory>
#include <optional>

using namespace mlir;

namespace sluice {
namespace {

using Tensor = std::shared_ptr<const HostTensor>;

std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << "[";
  llvm::interleaveComma(shape, stream);
  stream << "]";
  return text;
}

/// Whether a host tensor can stand for a value of this type; scalars may come as [] or [1].
bool fits(const HostTensor &tensor, Type type) {
  if (auto mask = dyn_cast<MaskType>(type))
    return llvm::ArrayRef<int64_t>(tensor.shape) == mask.getShape();
  auto expected = cast<RankedTensorType>(type);
  if (expected.getNumElements() == 1 && tensor.size() == 1)
    return true;
  return llvm::ArrayRef<int64_t>(tensor.shape) == expected.getShape();
}

/// One run of one graph.
class Execution {
public:
  Execution(const InterpreterOptions &options, TensorMap &states) : options(options), states(states) {}

  LogicalResult run(GraphOp graph) {
    Block &block = *graph.getBlock();
    llvm::DenseMap<Operation *, llvm::SmallVector<Value>> lastUses = findLastUses(block);
    for (Operation &op : block) {
      if (failed(execute(&op)))
        return mlir::failure();
      if (options.observe) {
        llvm::SmallVector<const HostTensor *> results;
        for (Value result : op.getResults())
          results.push_back(values.at(result).get());
        options.observe(&op, results);
      }
      for (Value value : lastUses.lookup(&op))
        values.erase(value);
    }
    return success();
  }

  void set(Value value, Tensor tensor) { values[value] = std::move(tensor); }
  TensorMap takeOutputs() { return std::move(outputs); }

private:
  /// The values that no op of the block needs after a given one.
  static llvm::DenseMap<Operation *, llvm::SmallVector<Value>> findLastUses(Block &block) {
    llvm::DenseMap<Operation *, llvm::SmallVector<Value>> lastUses;
    auto note = [&](Value value) {
      Operation *last = value.getDefiningOp();
      for (Operation *user : value.getUsers())
        if (Operation *op = block.findAncestorOpInBlock(*user); op && (!last || last->isBeforeInBlock(op)))
          last = op;
      if (last)
        lastUses[last].push_back(value);
    };
    llvm::for_each(block.getArguments(), note);
    for (Operation &op : block)
      llvm::for_each(op.getResults(), note);
    return lastUses;
  }

  LogicalResult execute(Operation *op) {
    if (auto param = dyn_cast<ParamOp>(op))
      return readParameter(param, param.getName());
    if (auto source = dyn_cast<ParamMaskOp>(op))
      return readParameter(source, maskName(source.getParameter()));
    if (auto repeat = dyn_cast<RepeatOp>(op))
      return executeRepeat(repeat);
    if (auto scope = dyn_cast<ScopeOp>(op))
      return inPath(scope.getName(), [&] { return executeBody(op, scope.getBody().front(), {}); });
    if (auto experts = dyn_cast<ExpertsOp>(op))
      return executeExperts(experts);
    if (auto kernel = dyn_cast<KernelOp>(op))
      return executeBody(op, kernel.getBody().front(), valuesOf(kernel.getInputs()));
    if (auto command = dyn_cast<plan::CommandOp>(op))
      return executeCommand(command);
    if (auto end = dyn_cast<ReturnOp>(op)) {
      for (auto [name, value] : llvm::zip(end.getNames(), end.getValues()))
        outputs[cast<StringAttr>(name).getValue().str()] = *values.at(value);
      return success();
    }
    if (auto loss = dyn_cast<AuxiliaryLossOp>(op)) {
      HostTensor &sum =
          outputs.try_emplace("auxiliary/" + loss.getName().str(), llvm::ArrayRef<int64_t>{}).first->second;
      sum[0] += (*values.at(loss.getValue()))[0];
      return success();
    }
    if (auto observed = dyn_cast<ObserveOp>(op)) {
      std::string name = path.empty() ? observed.getName().str() : observed.getName().str() + "/" + path;
      if (!outputs.try_emplace(name, *values.at(observed.getValue())).second)
        return emitPlacedError(op) << "two observations are called '" << name << "'";
      return success();
    }
    if (isa<ReadOp, WriteOp, AccumulateOp>(op))
      return executeState(op);
    if (auto evaluable = dyn_cast<Evaluable>(op))
      return evaluate(op, evaluable);
    return emitPlacedError(op) << "cannot be interpreted: it does not say what it computes (Evaluable)";
  }

  LogicalResult evaluate(Operation *op, Evaluable evaluable) {
    llvm::SmallVector<const HostTensor *> operands;
    for (Value operand : op->getOperands())
      operands.push_back(values.at(operand).get());
    if (options.count)
      return evaluateAndCount(op, operands);
    Evaluation evaluation(op, operands);
    if (failed(evaluable.evaluate(evaluation)))
      return mlir::failure();
    for (auto [value, tensor] : llvm::zip(op->getResults(), evaluation.takeResults()))
      set(value, std::make_shared<HostTensor>(std::move(tensor)));
    return success();
  }

  LogicalResult evaluateAndCount(Operation *op, llvm::ArrayRef<const HostTensor *> operands) {
    Tally tally;
    std::optional<std::vector<HostTensor>> results = evaluateCounting(op, operands);
    if (!results)
      return emitPlacedError(op)
             << "cannot be counted while it runs: it has no counting meaning (Counting.h)";
    options.count(op, tally.counts());
    for (auto [value, tensor] : llvm::zip(op->getResults(), *results))
      set(value, std::make_shared<HostTensor>(std::move(tensor)));
    return success();
  }

  llvm::SmallVector<Tensor> valuesOf(ValueRange operands) {
    llvm::SmallVector<Tensor> tensors;
    for (Value operand : operands)
      tensors.push_back(values.at(operand));
    return tensors;
  }

  /// Runs a body and returns what it yields.
  FailureOr<llvm::SmallVector<Tensor>> runBody(Block &body, llvm::ArrayRef<Tensor> arguments) {
    for (auto [argument, tensor] : llvm::zip(body.getArguments(), arguments))
      set(argument, tensor);
    for (Operation &op : body.without_terminator())
      if (failed(execute(&op)))
        return mlir::failure();
    return valuesOf(body.getTerminator()->getOperands());
  }

  /// Runs a body whose yields are the op's results.
  LogicalResult executeBody(Operation *op, Block &body, llvm::ArrayRef<Tensor> arguments) {
    FailureOr<llvm::SmallVector<Tensor>> yields = runBody(body, arguments);
    if (failed(yields))
      return mlir::failure();
    for (auto [result, tensor] : llvm::zip(op->getResults(), *yields))
      set(result, tensor);
    return success();
  }

  template <typename Body> LogicalResult inPath(llvm::StringRef name, Body body) {
    std::string outer = path;
    path = joinPath(path, name);
    LogicalResult result = body();
    path = std::move(outer);
    return result;
  }

  LogicalResult executeRepeat(RepeatOp repeat) {
    llvm::SmallVector<Tensor> carried = valuesOf(repeat.getInits());
    const int64_t first = static_cast<int64_t>(repeat.getFirst());
    for (int64_t i = first; i < first + static_cast<int64_t>(repeat.getTimes()); ++i) {
      LogicalResult result = inPath(joinPath(repeat.getName(), std::to_string(i)), [&]() -> LogicalResult {
        FailureOr<llvm::SmallVector<Tensor>> yields = runBody(repeat.getBody().front(), carried);
        if (succeeded(yields))
          carried = *yields;
        return yields;
      });
      if (failed(result))
        return mlir::failure();
    }
    for (auto [value, tensor] : llvm::zip(repeat.getResults(), carried))
      set(value, tensor);
    return success();
  }

  /// Rows do not see each other inside of `experts`, so each expert may compute all rows; its own ones are
  /// kept.
  LogicalResult executeExperts(ExpertsOp op) {
    if (options.count)
      return emitPlacedError(op) << "counting needs opened experts: run the phases up to flatten first";
    Tensor buffer = values.at(op.getRouting());
    RoutingView routing(*buffer, routingTypeOf(op.getRouting()));
    llvm::SmallVector<Tensor> inputs = valuesOf(op.getInputs());
    std::vector<HostTensor> results;
    for (Type type : op.getResultTypes())
      results.emplace_back(cast<RankedTensorType>(type).getShape());
    for (int64_t e = 0; e < routing.experts; ++e) {
      expert = e;
      FailureOr<llvm::SmallVector<Tensor>> yields = runBody(op.getBody().front(), inputs);
      expert.reset();
      if (failed(yields))
        return mlir::failure();
      for (auto [result, tensor] : llvm::zip(results, *yields)) {
        const int64_t width = result.size() / routing.rows;
        std::copy(tensor->values.begin() + routing.offset(e) * width,
                  tensor->values.begin() + routing.offset(e + 1) * width,
                  result.values.begin() + routing.offset(e) * width);
      }
    }
    for (auto [value, tensor] : llvm::zip(op.getResults(), results))
      set(value, std::make_shared<HostTensor>(std::move(tensor)));
    return success();
  }

  /// The command's body computes the results, then the new values of the states that it updates in place.
  LogicalResult executeCommand(plan::CommandOp command) {
    llvm::SmallVector<Tensor> arguments = valuesOf(command.getInputs());
    llvm::SmallVector<HostTensor *> updated;
    llvm::SmallVector<const HostTensor *> masks; // of states in kept form
    for (Attribute state : command.getStates()) {
      llvm::StringRef name = isa<FlatSymbolRefAttr>(state) ? cast<FlatSymbolRefAttr>(state).getValue()
                                                           : cast<StringAttr>(state).getValue();
      HostTensor *value = findState(command, name);
      FailureOr<const HostTensor *> mask = maskOfState(command, name);
      if (!value || failed(mask))
        return mlir::failure();
      Type type = command.getBody().getArgument(static_cast<unsigned>(arguments.size())).getType();
      arguments.push_back(std::make_shared<HostTensor>(stored(*value, *mask, type)));
      updated.push_back(value);
      masks.push_back(*mask);
    }
    FailureOr<llvm::SmallVector<Tensor>> yields = runBody(command.getBody().front(), arguments);
    if (failed(yields))
      return mlir::failure();
    const size_t count = command.getNumResults();
    if (yields->size() != count + updated.size())
      return emitPlacedError(command) << "yields " << yields->size() << " values, expected its " << count
                                      << " results and " << updated.size() << " states";
    for (auto [index, result] : llvm::enumerate(command.getResults()))
      set(result, (*yields)[index]);
    // A command that changes a mask yields the mask first: kept values that follow are those of the new one.
    for (auto [index, state] : llvm::enumerate(updated)) {
      const HostTensor &value = *(*yields)[count + index];
      *state = masks[index] ? wholeOf(value, *masks[index]) : value;
    }
    return success();
  }

  HostTensor *findState(Operation *op, llvm::StringRef name) {
    if (auto found = states.find(name.str()); found != states.end())
      return &found->second;
    emitPlacedError(op) << "needs the state '" << name
                        << "', which has no value: give weights or initial states";
    return nullptr;
  }

  /// The mask of a state in kept form, or null. The map holds whole tensors in any phase.
  FailureOr<const HostTensor *> maskOfState(Operation *op, llvm::StringRef name) {
    auto state = SymbolTable::lookupNearestSymbolFrom<StateOp>(op, StringAttr::get(op->getContext(), name));
    auto keptBy = state ? state->getAttrOfType<FlatSymbolRefAttr>(keptByAttributeName) : FlatSymbolRefAttr();
    if (!keptBy)
      return static_cast<const HostTensor *>(nullptr);
    const HostTensor *whole = findState(op, name), *mask = findState(op, keptBy.getValue());
    if (!whole || !mask)
      return mlir::failure();
    if (whole->shape != mask->shape)
      return emitPlacedError(op) << "state '" << name << "' must be whole, " << shapeText(mask->shape)
                                 << ", found " << shapeText(whole->shape);
    return mask;
  }

  static HostTensor stored(const HostTensor &whole, const HostTensor *mask, Type type) {
    return mask ? keptOf(whole, *mask, cast<RankedTensorType>(type).getShape()) : whole;
  }

  LogicalResult checkShape(Operation *op, llvm::StringRef name, const HostTensor &tensor, Type type) {
    if (fits(tensor, type))
      return success();
    return emitPlacedError(op) << "state '" << name << "' must be " << sluice::shapeText(type) << ", found "
                               << shapeText(tensor.shape);
  }

  /// A parameter or its mask.
  LogicalResult readParameter(Operation *param, llvm::StringRef ownName) {
    std::string name = joinPath(path, ownName);
    HostTensor *state = findState(param, name);
    if (!state)
      return mlir::failure();
    Type type = param->getResult(0).getType();
    if (!expert) {
      if (failed(checkShape(param, name, *state, type)))
        return mlir::failure();
      set(param->getResult(0), std::make_shared<HostTensor>(*state));
      return success();
    }
    // Stacked: one slice an expert.
    auto mask = dyn_cast<MaskType>(type);
    llvm::ArrayRef<int64_t> shape = mask ? mask.getShape() : cast<RankedTensorType>(type).getShape();
    auto slice = std::make_shared<HostTensor>(shape);
    const int64_t size = slice->size();
    if (state->shape.size() != shape.size() + 1 ||
        llvm::ArrayRef<int64_t>(state->shape).drop_front() != shape || *expert >= state->shape.front())
      return emitPlacedError(param) << "state '" << name << "' must be stacked, [experts] and "
                                    << sluice::shapeText(type) << ", found " << shapeText(state->shape);
    std::copy_n(state->values.begin() + *expert * size, size, slice->values.begin());
    set(param->getResult(0), std::move(slice));
    return success();
  }

  LogicalResult executeState(Operation *op) {
    if (auto write = dyn_cast<WriteOp>(op)) {
      const HostTensor &value = *values.at(write.getValue());
      FailureOr<const HostTensor *> mask = maskOfState(op, write.getState());
      if (failed(mask))
        return mlir::failure();
      states[write.getState().str()] = *mask ? wholeOf(value, **mask) : value;
      return success();
    }
    llvm::StringRef name = isa<ReadOp>(op) ? cast<ReadOp>(op).getState() : cast<AccumulateOp>(op).getState();
    HostTensor *state = findState(op, name);
    if (!state)
      return mlir::failure();
    FailureOr<const HostTensor *> mask = maskOfState(op, name);
    if (failed(mask))
      return mlir::failure();
    if (auto read = dyn_cast<ReadOp>(op)) {
      if (!*mask && failed(checkShape(op, name, *state, read.getValue().getType())))
        return mlir::failure();
      set(read.getValue(), std::make_shared<HostTensor>(stored(*state, *mask, read.getValue().getType())));
      return success();
    }
    auto accumulate = cast<AccumulateOp>(op);
    const HostTensor &value = *values.at(accumulate.getValue());
    const HostTensor added = *mask ? wholeOf(value, **mask) : value;
    if (!*mask && failed(checkShape(op, name, *state, accumulate.getValue().getType())))
      return mlir::failure();
    Tally tally;
    for (int64_t i = 0; i < state->size(); ++i)
      (*state)[i] = (Scalar((*state)[i]) + added[i]).value;
    if (options.count)
      options.count(op, tally.counts());
    return success();
  }

  const InterpreterOptions &options;
  TensorMap &states;
  TensorMap outputs;
  llvm::DenseMap<Value, Tensor> values;
  std::string path;
  std::optional<int64_t> expert; // inside of `experts`: whose parameters are read
};

/// Values of a graph need sizes: names must be bound.
LogicalResult verifyStatic(GraphOp graph) {
  WalkResult result = graph.walk([](Operation *op) {
    auto isNamed = [](Type type) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      return tensor && !tensor.hasStaticShape();
    };
    if (!llvm::any_of(op->getResultTypes(), isNamed))
      return WalkResult::advance();
    emitPlacedError(op) << "has sizes that are names; bind them to numbers first (batch=..., seq=...)";
    return WalkResult::interrupt();
  });
  return mlir::failure(result.wasInterrupted());
}

} // namespace

StatusOr<TensorMap> Interpreter::run(llvm::StringRef name, const TensorMap &inputs, TensorMap &states) const {
  auto graph = dyn_cast_or_null<GraphOp>(SymbolTable::lookupSymbolIn(ModuleOp(module), name));
  if (!graph) {
    std::string known;
    for (auto other : ModuleOp(module).getOps<GraphOp>())
      known += (known.empty() ? "@" : ", @") + other.getSymName().str();
    return usageError("the module has no graph @", name.str(), "; it has ", known);
  }
  std::string errors;
  ScopedDiagnosticHandler handler(graph.getContext(), [&](Diagnostic &diagnostic) -> LogicalResult {
    if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
      return mlir::failure();
    errors += (errors.empty() ? "" : "\n") + diagnostic.str();
    for (Diagnostic &note : diagnostic.getNotes())
      errors += "\n  " + note.str();
    return success();
  });
  bool isPlanned = !graph.getBlock()->getOps<plan::CommandOp>().empty();
  if (failed(verifyStatic(graph)) || (options.simulateArenas && isPlanned && failed(checkArenas(graph))))
    return sluice::failure(errors);

  Execution execution(options, states);
  for (auto [inputName, argument] : llvm::zip(graph.getInputNames(), graph.getBlock()->getArguments())) {
    std::string text = cast<StringAttr>(inputName).getValue().str();
    auto input = inputs.find(text);
    if (input == inputs.end())
      return usageError("graph @", name.str(), " needs the input '", text, "' of shape ",
                        sluice::shapeText(argument.getType()), "; it was not given");
    if (!fits(input->second, argument.getType()))
      return usageError("graph @", name.str(), ": input '", text, "' must be ",
                        sluice::shapeText(argument.getType()), ", found ", shapeText(input->second.shape));
    execution.set(argument, std::make_shared<HostTensor>(input->second));
  }
  if (failed(execution.run(graph)))
    return sluice::failure(errors);
  return execution.takeOutputs();
}

} // namespace sluice
