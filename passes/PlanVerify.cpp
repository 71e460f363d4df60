#include "passes/Passes.h"
#include "passes/PlanValues.h"

#include "codegen/kernel/Program.h"

using namespace mlir;

namespace sluice {
#define GEN_PASS_DEF_VERIFYPLAN
#include "passes/Passes.h.inc"

namespace {

/// A stretch of an arena.
struct Range {
  StringRef arena;
  int64_t begin = 0, end = 0;

  Range(Attribute slot, Type type) {
    auto place = cast<plan::SlotAttr>(slot);
    arena = place.getArena();
    begin = place.getOffset();
    end = begin + bytesOf(type);
  }
  bool overlaps(const Range &other) const {
    return arena == other.arena && begin < other.end && other.begin < end;
  }
  bool operator==(const Range &other) const {
    return arena == other.arena && begin == other.begin && end == other.end;
  }
};

/// A value that has been written and is still to be read.
struct LiveValue {
  Value value;
  Range range;
  int64_t last;
};

class EntryVerifier {
public:
  EntryVerifier(GraphOp graph, const llvm::StringMap<int64_t> &arenas) : graph(graph), arenas(arenas) {}

  LogicalResult run() {
    SmallVector<plan::CommandOp> commands = commandsOf(graph);
    for (auto [index, command] : llvm::enumerate(commands))
      numbers[command] = static_cast<int64_t>(index);
    auto inputs = graph->getAttrOfType<ArrayAttr>("plan.input_slots");
    auto outputs = graph->getAttrOfType<ArrayAttr>("plan.output_slots");
    if (!inputs || !outputs || inputs.size() != graph.getBlock()->getNumArguments())
      return graph.emitOpError("has no places for its inputs and outputs");
    // Inputs stay as the host wrote them, to the end of the run.
    for (auto [argument, slot] : llvm::zip(graph.getBlock()->getArguments(), inputs))
      live.push_back({argument, Range(slot, argument.getType()), INT64_MAX});
    for (auto [index, command] : llvm::enumerate(commands))
      if (failed(checkCommand(command, static_cast<int64_t>(index))))
        return failure();
    return success();
  }

private:
  int64_t lastRead(Value value) {
    SmallVector<Operation *> readers;
    readersOf(value, readers);
    int64_t last = -1;
    for (Operation *reader : readers)
      last = std::max(last, isa<ReturnOp>(reader) ? INT64_MAX : numbers.lookup(reader));
    return last;
  }

  LogicalResult checkCommand(plan::CommandOp command, int64_t index) {
    if (static_cast<int64_t>(command.getNumber()) != index)
      return command.emitOpError() << "has number " << command.getNumber() << ", expected " << index;
    for (auto [input, slot] : llvm::zip(command.getInputs(), command.getInputSlots())) {
      Range range(slot, input.getType());
      auto found =
          llvm::find_if(live, [&](const LiveValue &other) { return other.value == storageOf(input); });
      if (found != live.end() && found->range.begin != range.begin)
        return command.emitOpError() << "reads an operand at " << slot << ", which lives elsewhere";
      if (failed(checkRange(command, range)))
        return failure();
    }
    llvm::erase_if(live, [&](const LiveValue &other) { return other.last < index; });
    SmallVector<LiveValue> written;
    for (auto [result, slot] : llvm::zip(command->getResults(), command.getResultSlots())) {
      Range range(slot, result.getType());
      if (failed(checkRange(command, range)))
        return failure();
      for (const LiveValue &other : written)
        if (range.overlaps(other.range))
          return command.emitOpError("writes two results to one place");
      for (const LiveValue &other : live)
        if (range.overlaps(other.range) && !(other.last == index && mayTake(command, other, result, range)))
          return command.emitOpError()
                 << "overwrites a value at " << slot << " that command " << other.last << " still reads";
      written.push_back({result, range, lastRead(result)});
    }
    live.append(written);
    return success();
  }

  LogicalResult checkRange(plan::CommandOp command, const Range &range) {
    auto arena = arenas.find(range.arena);
    if (arena == arenas.end())
      return command.emitOpError() << "has an operand without a place";
    if (range.begin % 64 != 0 || range.end > arena->second)
      return command.emitOpError() << "has an operand at bytes " << range.begin << " to " << range.end
                                   << " of arena '" << range.arena << "' of " << arena->second << " bytes";
    return success();
  }

  /// Whether a dying operand may be overwritten by its own reader: the same elements, each read before it is
  /// written.
  static bool mayTake(plan::CommandOp command, const LiveValue &operand, OpResult result,
                      const Range &range) {
    KernelOp kernel = kernelOf(command);
    if (!kernel || operand.range.begin != range.begin)
      return false;
    FailureOr<KernelProgram> program = readKernelProgram(kernel);
    if (failed(program))
      return false;
    for (auto [index, input] : llvm::enumerate(command.getInputs()))
      if (storageOf(input) == operand.value &&
          !program->mayOverwrite(static_cast<int>(index), static_cast<int>(result.getResultNumber())))
        return false;
    return true;
  }

  GraphOp graph;
  const llvm::StringMap<int64_t> &arenas;
  llvm::DenseMap<Operation *, int64_t> numbers;
  SmallVector<LiveValue> live;
};

struct VerifyPlan : impl::VerifyPlanBase<VerifyPlan> {
  void runOnOperation() override {
    llvm::StringMap<int64_t> arenas;
    for (plan::ArenaOp arena : getOperation().getOps<plan::ArenaOp>())
      arenas[arena.getSymName()] = static_cast<int64_t>(arena.getBytes());
    SmallVector<Range> states;
    for (StateOp state : getOperation().getOps<StateOp>()) {
      Attribute slot = state->getAttr("plan.slot");
      if (!slot) {
        state.emitOpError("has no place");
        return signalPassFailure();
      }
      states.push_back(Range(slot, state.getType()));
    }
    llvm::sort(states, [](const Range &a, const Range &b) {
      return std::pair(a.arena, a.begin) < std::pair(b.arena, b.begin);
    });
    for (size_t i = 1; i < states.size(); ++i)
      if (states[i - 1].overlaps(states[i])) {
        getOperation().emitError("two states share memory");
        return signalPassFailure();
      }
    for (GraphOp graph : getOperation().getOps<GraphOp>())
      if (failed(EntryVerifier(graph, arenas).run()))
        return signalPassFailure();
  }
};

} // namespace
} // namespace sluice
