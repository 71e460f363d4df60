#include "dialects/interpreter/ArenaCheck.h"

#include "dialects/sluice/ops/Place.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/StringMap.h"

#include <map>

using namespace mlir;
using sluice::plan::ArenaOp;
using sluice::plan::CommandOp;
using sluice::plan::SlotAttr;

namespace sluice {
namespace {

int64_t bytesOf(Type type) {
  if (auto routing = dyn_cast<RoutingType>(type))
    return 4 * routing.bufferSize();
  if (auto mask = dyn_cast<MaskType>(type))
    return mask.bufferBytes();
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getNumElements() * std::max<int64_t>(1, tensor.getElementTypeBitWidth() / 8);
}

/// A value in an arena: who wrote it (-1: it was there at the start) and who read it since.
struct Owner {
  std::string what;
  int64_t begin = 0, end = 0;
  int64_t writer = -1;
  llvm::SmallVector<int64_t> readers;
};

class ArenaChecker {
public:
  ArenaChecker(GraphOp graph, const ArenaCheckOptions &options) : graph(graph), options(options) {}

  LogicalResult run() {
    auto module = graph->getParentOfType<ModuleOp>();
    for (auto arena : module.getOps<ArenaOp>())
      arenaBytes[arena.getSymName()] = static_cast<int64_t>(arena.getBytes());
    for (auto state : module.getOps<StateOp>())
      if (auto slot = stateSlot(state)) {
        stateSlots[state.getSymName()] = {slot, state.getType()};
        if (failed(write(state, slot, state.getType(), "state '" + state.getSymName().str() + "'", -1)))
          return failure();
      }
    if (failed(placeInputs()))
      return failure();
    for (Operation &op : *graph.getBlock()) {
      if (auto command = dyn_cast<CommandOp>(op)) {
        if (failed(runCommand(command)))
          return failure();
      } else if (auto read = dyn_cast<ReadOp>(op)) {
        if (auto state = stateSlots.find(read.getState()); state != stateSlots.end())
          owners[read.getValue()] = ownerAt(state->second.first);
      } else if (isa<ReshapeOp>(op)) {
        if (auto source = owners.find(op.getOperand(0)); source != owners.end()) {
          size_t owner = source->second;
          owners[op.getResult(0)] = owner;
        }
      }
    }
    return checkOutputs();
  }

private:
  struct Piece {
    int64_t end;
    size_t owner;
  };
  using Pieces = std::map<int64_t, Piece>; // begin -> piece, without overlaps

  static SlotAttr stateSlot(StateOp state) { return state->getAttrOfType<SlotAttr>("plan.slot"); }

  /// The owner of the first byte of a slot; every state owns its slot from the start.
  size_t ownerAt(SlotAttr slot) {
    auto piece = std::prev(arenas[slot.getArena()].upper_bound(slot.getOffset()));
    return piece->second.owner;
  }

  LogicalResult checkBounds(Operation *op, SlotAttr slot, int64_t bytes) {
    auto arena = arenaBytes.find(slot.getArena());
    if (arena == arenaBytes.end())
      return emitPlacedError(op) << "names the arena '" << slot.getArena() << "', which the module lacks";
    if (slot.getOffset() < 0 || slot.getOffset() % 64 != 0 || slot.getOffset() + bytes > arena->second)
      return emitPlacedError(op) << "slot " << slot.getOffset() << " + " << bytes
                                 << " bytes must start at a multiple of 64 and lie inside of arena '"
                                 << slot.getArena() << "' of " << arena->second << " bytes";
    return success();
  }

  /// Whether `later` may rely on `earlier` having finished.
  bool isAfter(int64_t later, int64_t earlier) const {
    if (earlier < 0 || !options.dependencies)
      return true;
    return ancestors[later].size() > static_cast<unsigned>(earlier) && ancestors[later].test(earlier);
  }

  LogicalResult write(Operation *op, SlotAttr slot, Type type, std::string what, int64_t command) {
    const int64_t begin = slot.getOffset(), end = begin + bytesOf(type);
    if (failed(checkBounds(op, slot, end - begin)))
      return failure();
    Pieces &pieces = arenas[slot.getArena()];
    auto piece = pieces.upper_bound(begin);
    if (piece != pieces.begin() && std::prev(piece)->second.end > begin)
      --piece;
    while (piece != pieces.end() && piece->first < end) {
      const Owner &old = all[piece->second.owner];
      if (old.writer == command)
        return emitPlacedError(op) << "writes " << what << " over " << old.what << ", which it also writes";
      if (!isAfter(command, old.writer))
        return emitPlacedError(op) << "overwrites " << old.what << " with " << what
                                   << " without depending on command " << old.writer << ", which writes it";
      for (int64_t reader : old.readers) {
        if (reader == command && old.begin != begin)
          return emitPlacedError(op) << "reads " << old.what << " and writes " << what
                                     << " partly over it; in place means exactly in place";
        if (reader != command && !isAfter(command, reader))
          return emitPlacedError(op) << "overwrites " << old.what << " with " << what
                                     << " without depending on command " << reader << ", which reads it";
      }
      // What is left of the old value on either side keeps its owner, so that a later read names both.
      const int64_t oldBegin = piece->first;
      const Piece rest = piece->second;
      piece = pieces.erase(piece);
      if (oldBegin < begin)
        pieces[oldBegin] = {begin, rest.owner};
      if (rest.end > end)
        piece = pieces.insert({end, rest}).first;
    }
    all.push_back({std::move(what), begin, end, command, {}});
    pieces[begin] = {end, all.size() - 1};
    return success();
  }

  /// Every byte of the slot must belong to `owner`.
  LogicalResult read(Operation *op, SlotAttr slot, Type type, size_t owner, int64_t command) {
    const int64_t begin = slot.getOffset(), end = begin + bytesOf(type);
    if (failed(checkBounds(op, slot, end - begin)))
      return failure();
    Pieces &pieces = arenas[slot.getArena()];
    int64_t at = begin;
    while (at < end) {
      auto piece = pieces.upper_bound(at);
      if (piece == pieces.begin() || std::prev(piece)->second.end <= at)
        return emitPlacedError(op) << "reads " << all[owner].what << " at " << slot << ", where byte " << at
                                   << " was never written";
      piece = std::prev(piece);
      if (piece->second.owner != owner)
        return emitPlacedError(op) << "reads " << all[owner].what << " at " << slot << ", but byte " << at
                                   << " was overwritten by " << all[piece->second.owner].what;
      at = piece->second.end;
    }
    if (command >= 0) {
      if (!isAfter(command, all[owner].writer))
        return emitPlacedError(op) << "reads " << all[owner].what << " without depending on command "
                                   << all[owner].writer << ", which writes it";
      all[owner].readers.push_back(command);
    }
    return success();
  }

  /// Inputs are in their slots from the start.
  LogicalResult placeInputs() {
    auto inputSlots = graph->getAttrOfType<ArrayAttr>("plan.input_slots");
    if (!inputSlots || inputSlots.size() != graph.getBlock()->getNumArguments())
      return graph.emitOpError("is not planned: its inputs have no places (run the plan phase first)");
    for (auto [name, input, slot] :
         llvm::zip(graph.getInputNames(), graph.getBlock()->getArguments(), inputSlots)) {
      std::string what = "input '" + cast<StringAttr>(name).getValue().str() + "'";
      if (failed(write(graph, cast<SlotAttr>(slot), input.getType(), what, -1)))
        return failure();
      owners[input] = all.size() - 1;
    }
    return success();
  }

  LogicalResult runCommand(CommandOp command) {
    const auto number = static_cast<int64_t>(command.getNumber());
    if (number != static_cast<int64_t>(ancestors.size()))
      return emitPlacedError(command) << "is number " << number << ", expected " << ancestors.size();
    llvm::BitVector before(number + 1);
    for (int64_t dependency : command.getDependencies()) {
      before |= ancestors[dependency];
      before.set(dependency);
    }
    ancestors.push_back(std::move(before));

    for (auto [value, attribute] : llvm::zip(command.getInputs(), command.getInputSlots())) {
      auto slot = dyn_cast<SlotAttr>(attribute);
      if (!slot)
        continue;
      auto owner = owners.find(value);
      if (owner == owners.end())
        return emitPlacedError(command)
               << "reads a value at " << slot << " that no command or state has put there";
      if (failed(read(command, slot, value.getType(), owner->second, number)))
        return failure();
    }
    for (Attribute name : command.getStates())
      if (auto state = findState(name); state != stateSlots.end())
        if (failed(read(command, state->second.first, state->second.second, ownerAt(state->second.first),
                        number)))
          return failure();

    std::string prefix = "command " + std::to_string(number) + " (" + command.getKind().str() + ")";
    for (auto [index, result] : llvm::enumerate(command.getResults())) {
      auto slot = dyn_cast<SlotAttr>(command.getResultSlots()[index]);
      if (!slot)
        continue;
      std::string what = "result " + std::to_string(index) + " of " + prefix;
      if (failed(write(command, slot, result.getType(), what, number)))
        return failure();
      owners[result] = all.size() - 1;
    }
    for (Attribute name : command.getStates())
      if (auto state = findState(name); state != stateSlots.end()) {
        std::string what = "state '" + state->first().str() + "' as " + prefix + " leaves it";
        if (failed(write(command, state->second.first, state->second.second, what, number)))
          return failure();
      }
    return success();
  }

  /// Outputs are intact at the end.
  LogicalResult checkOutputs() {
    auto end = cast<ReturnOp>(graph.getBlock()->getTerminator());
    auto outputSlots = graph->getAttrOfType<ArrayAttr>("plan.output_slots");
    if (!outputSlots || outputSlots.size() != end.getValues().size())
      return graph.emitOpError("is not planned: its outputs have no places (run the plan phase first)");
    for (auto [value, slot] : llvm::zip(end.getValues(), outputSlots)) {
      auto owner = owners.find(value);
      if (owner == owners.end())
        return emitPlacedError(end) << "returns a value that no command has put at " << slot;
      if (failed(read(end, cast<SlotAttr>(slot), value.getType(), owner->second, -1)))
        return failure();
    }
    return success();
  }

  llvm::StringMap<std::pair<SlotAttr, Type>>::iterator findState(Attribute name) {
    if (auto symbol = dyn_cast<FlatSymbolRefAttr>(name))
      return stateSlots.find(symbol.getValue());
    return stateSlots.find(cast<StringAttr>(name).getValue());
  }

  GraphOp graph;
  ArenaCheckOptions options;
  llvm::StringMap<int64_t> arenaBytes;
  llvm::StringMap<Pieces> arenas;
  llvm::StringMap<std::pair<SlotAttr, Type>> stateSlots;
  std::vector<Owner> all;
  llvm::DenseMap<Value, size_t> owners;
  std::vector<llvm::BitVector> ancestors; // a command's direct and indirect dependencies
};

} // namespace

LogicalResult checkArenas(GraphOp graph, const ArenaCheckOptions &options) {
  return ArenaChecker(graph, options).run();
}

} // namespace sluice
