#include "passes/Passes.h"
#include "passes/PlanOffsets.h"
#include "passes/PlanValues.h"

#include "codegen/kernel/Program.h"

#include <map>

using namespace mlir;

namespace sluice {
#define GEN_PASS_DEF_ASSIGNSLOTS
#include "passes/Passes.h.inc"

namespace {

constexpr llvm::StringLiteral activationsArena = "activations", ioArena = "io";

StringRef arenaOf(StateOp state) {
  if (state.getRole().ends_with("gradient"))
    return "gradients";
  return state.getRole() == "parameter" ? "parameters" : "optimizer";
}

/// Places of one entry point.
class EntryPlanner {
public:
  EntryPlanner(GraphOp graph, const StateMap &states, int64_t &ioBytes, int64_t &activationBytes)
      : graph(graph), states(states), commands(commandsOf(graph)), ioBytes(ioBytes),
        activationBytes(activationBytes) {}

  void run() {
    placeInputsAndOutputs();
    for (auto [index, command] : llvm::enumerate(commands))
      numbers[command] = static_cast<int64_t>(index);
    for (plan::CommandOp command : commands)
      for (OpResult result : command->getResults())
        if (!slots.contains(result))
          addBlock(command, result);
    activationBytes = std::max(activationBytes, placeBlocks(blocks));
    for (auto [value, block] : blockOf)
      slots[value] = slot(activationsArena, blocks[block].offset);
    write();
  }

private:
  Attribute slot(StringRef arena, int64_t offset) {
    return plan::SlotAttr::get(graph.getContext(), arena, offset);
  }

  Attribute nextIo(Type type) {
    Attribute place = slot(ioArena, ioBytes);
    ioBytes += alignedBytes(bytesOf(type));
    return place;
  }

  void placeInputsAndOutputs() {
    for (BlockArgument argument : graph.getBlock()->getArguments())
      slots[argument] = nextIo(argument.getType());
    for (Value output : graph.getBlock()->getTerminator()->getOperands())
      slots[storageOf(output)] = nextIo(output.getType());
  }

  int64_t lastUse(Value value, int64_t first) {
    SmallVector<Operation *> readers;
    readersOf(value, readers);
    int64_t last = first;
    for (Operation *reader : readers)
      last = std::max(last, numbers.lookup(reader));
    return last;
  }

  void addBlock(plan::CommandOp command, OpResult result) {
    int64_t number = numbers.lookup(command), last = lastUse(result, number);
    int64_t bytes = alignedBytes(bytesOf(result.getType()));
    if (int64_t block = overwritable(command, result, bytes); block >= 0) {
      blocks[block].last = last;
      blockOf[result] = block;
      return;
    }
    blockOf[result] = static_cast<int64_t>(blocks.size());
    blocks.push_back({bytes, number, last, 0});
  }

  /// The block of an operand that dies with this command and that the result may be written over, or -1.
  int64_t overwritable(plan::CommandOp command, OpResult result, int64_t bytes) {
    KernelOp kernel = kernelOf(command);
    if (!kernel)
      return -1;
    FailureOr<KernelProgram> program = readKernelProgram(kernel);
    if (failed(program))
      return -1;
    for (Value candidate : command.getInputs()) {
      Value storage = storageOf(candidate);
      auto found = blockOf.find(storage);
      if (found == blockOf.end() || blocks[found->second].bytes != bytes ||
          blocks[found->second].last != numbers.lookup(command) ||
          lastUse(storage, 0) != numbers.lookup(command))
        continue;
      bool safe = true;
      for (auto [index, input] : llvm::enumerate(command.getInputs()))
        if (auto other = blockOf.find(storageOf(input));
            other != blockOf.end() && other->second == found->second)
          safe &= program->mayOverwrite(static_cast<int>(index), static_cast<int>(result.getResultNumber()));
      // A second result of this command may have taken the operand already.
      for (Value sibling : command.getResults())
        if (auto taken = blockOf.find(sibling); taken != blockOf.end() && taken->second == found->second)
          safe = false;
      if (safe)
        return found->second;
    }
    return -1;
  }

  Attribute slotOf(Value value) {
    Value storage = storageOf(value);
    if (Attribute state = stateOf(storage)) {
      StateOp op = states.lookup(cast<FlatSymbolRefAttr>(state).getAttr());
      return op->getAttr("plan.slot");
    }
    return slots.lookup(storage);
  }

  void write() {
    Builder builder(graph.getContext());
    auto list = [&](ValueRange values) {
      SmallVector<Attribute> result;
      for (Value value : values)
        result.push_back(slotOf(value));
      return builder.getArrayAttr(result);
    };
    for (plan::CommandOp command : commands) {
      command.setInputSlotsAttr(list(command.getInputs()));
      command.setResultSlotsAttr(list(command.getResults()));
    }
    graph->setAttr("plan.input_slots", list(graph.getBlock()->getArguments()));
    graph->setAttr("plan.output_slots", list(graph.getBlock()->getTerminator()->getOperands()));
    addReuseDependencies();
  }

  /// A command that writes where an older value was waits for that value's readers and its writer.
  void addReuseDependencies() {
    struct Use {
      int64_t begin, end;
      SmallVector<int64_t> commands;
    };
    std::vector<Use> uses;
    Dependencies dependencies;
    for (auto [index, command] : llvm::enumerate(commands)) {
      SmallVector<int64_t> wanted(command.getDependencies());
      std::vector<Use> fresh;
      for (Value result : command.getResults()) {
        auto found = blockOf.find(result);
        if (found == blockOf.end())
          continue;
        int64_t begin = blocks[found->second].offset, end = begin + blocks[found->second].bytes;
        llvm::erase_if(uses, [&](const Use &use) {
          if (use.end <= begin || end <= use.begin)
            return false;
          for (int64_t user : use.commands)
            if (user != static_cast<int64_t>(index))
              wanted.push_back(user);
          return begin <= use.begin && use.end <= end;
        });
        Use use{begin, end, {static_cast<int64_t>(index)}};
        SmallVector<Operation *> readers;
        readersOf(result, readers);
        for (Operation *reader : readers)
          if (numbers.contains(reader))
            use.commands.push_back(numbers.lookup(reader));
        fresh.push_back(std::move(use));
      }
      uses.insert(uses.end(), fresh.begin(), fresh.end());
      llvm::erase_if(wanted, [&](int64_t number) { return number >= static_cast<int64_t>(index); });
      command.setDependencies(dependencies.add(wanted));
    }
  }

  GraphOp graph;
  const StateMap &states;
  SmallVector<plan::CommandOp> commands;
  int64_t &ioBytes, &activationBytes;
  llvm::DenseMap<Operation *, int64_t> numbers;
  llvm::DenseMap<Value, Attribute> slots;
  llvm::DenseMap<Value, int64_t> blockOf;
  std::vector<LiveBlock> blocks;
};

struct AssignSlots : impl::AssignSlotsBase<AssignSlots> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    std::map<std::string, int64_t> bytes = {{"parameters", 0}, {"gradients", 0}, {"optimizer", 0}};
    StateMap states = stateMap(module);
    std::map<std::string, StateOp> sorted;
    for (StateOp state : module.getOps<StateOp>())
      sorted[state.getSymName().str()] = state;
    for (auto &[name, state] : sorted) {
      int64_t &end = bytes[arenaOf(state).str()];
      state->setAttr("plan.slot", plan::SlotAttr::get(&getContext(), arenaOf(state), end));
      end += alignedBytes(bytesOf(state.getType()));
    }
    int64_t io = 0, activations = 0;
    for (GraphOp graph : module.getOps<GraphOp>())
      EntryPlanner(graph, states, io, activations).run();
    OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
    for (auto [name, size] : {std::pair<StringRef, int64_t>{"parameters", bytes["parameters"]},
                              {"gradients", bytes["gradients"]},
                              {"optimizer", bytes["optimizer"]},
                              {activationsArena, activations},
                              {ioArena, io}})
      plan::ArenaOp::create(builder, module.getLoc(), builder.getStringAttr(name),
                            builder.getI64IntegerAttr(size), builder.getStringAttr(name));
  }
};

} // namespace
} // namespace sluice
