#include "codegen/package/Describe.h"

#include "dialects/plan/Plan.h"
#include "dialects/sluice/JsonAttributes.h"
#include "dialects/sluice/Notation.h"

#include <map>
#include <set>

using namespace mlir;

namespace sluice {
namespace {

std::string text(llvm::StringRef value) {
  return value.str();
}

class Describer {
public:
  explicit Describer(ModuleOp module) : module(module) {}

  StatusOr<ExecutableDescription> run() {
    addArenas();
    SLUICE_RETURN_IF_ERROR(addStates());
    result.bindings = bindings(module->getAttrOfType<DictionaryAttr>("sluice.bindings"));
    if (Attribute training = module->getAttr("sluice.training"))
      result.training = attributeToJsonText(training);
    if (Attribute config = module->getAttr("sluice.model_config"))
      result.modelConfig = attributeToJsonText(config);
    for (GraphOp graph : module.getOps<GraphOp>())
      SLUICE_RETURN_IF_ERROR(addEntry(graph));
    return std::move(result);
  }

private:
  void addArenas() {
    const std::map<std::string, ArenaClass> classes = {{"parameters", ArenaClass::Parameters},
                                                       {"gradients", ArenaClass::Gradients},
                                                       {"optimizer", ArenaClass::Optimizer},
                                                       {"activations", ArenaClass::Activations},
                                                       {"io", ArenaClass::Io}};
    for (plan::ArenaOp arena : module.getOps<plan::ArenaOp>()) {
      auto found = classes.find(text(arena.getLifetime()));
      arenas[text(arena.getSymName())] = static_cast<int>(result.arenas.size());
      result.arenas.push_back({text(arena.getSymName()), static_cast<uint64_t>(arena.getBytes()),
                               found == classes.end() ? ArenaClass::Activations : found->second});
    }
  }

  StatusOr<Operand> operand(Type type, Attribute slot) {
    Operand place;
    if (auto routing = dyn_cast<RoutingType>(type)) {
      place.type = ElementType::I32;
      place.shape = {routing.bufferSize()};
    } else if (auto mask = dyn_cast<MaskType>(type)) {
      place.type = ElementType::U8;
      place.shape = {mask.bufferBytes()};
    } else {
      auto tensor = cast<RankedTensorType>(type);
      place.shape.assign(tensor.getShape().begin(), tensor.getShape().end());
      Type element = tensor.getElementType();
      if (element.isF32())
        place.type = ElementType::F32;
      else if (element.isF64())
        place.type = ElementType::F64;
      else if (element.isBF16())
        place.type = ElementType::BF16;
      else if (element.isInteger(32))
        place.type = ElementType::I32;
      else if (element.isInteger(64))
        place.type = ElementType::I64;
      else
        return failure("the executable has no element type for one of the plan's tensors");
    }
    auto position = dyn_cast_or_null<plan::SlotAttr>(slot);
    auto arena = position ? arenas.find(text(position.getArena())) : arenas.end();
    if (arena == arenas.end())
      return failure("a value of the plan has no place in memory; run the plan phase first");
    place.arena = arena->second;
    place.offset = static_cast<uint64_t>(position.getOffset());
    return place;
  }

  Status addStates() {
    const std::map<std::string, TensorRole> roles = {{"parameter", TensorRole::Parameter},
                                                     {"gradient", TensorRole::Gradient},
                                                     {"dense_gradient", TensorRole::Gradient},
                                                     {"exp_avg", TensorRole::ExpAvg},
                                                     {"exp_avg_sq", TensorRole::ExpAvgSq}};
    for (StateOp state : module.getOps<StateOp>()) {
      auto role = roles.find(text(state.getRole()));
      StateTensor tensor;
      tensor.name = text(state.getSymName());
      tensor.role = role == roles.end() ? TensorRole::State : role->second;
      bool parameter = tensor.role == TensorRole::Parameter;
      tensor.parameter = parameter ? "" : text(state.getParameter());
      tensor.checkpointName = parameter ? text(state.getCheckpoint()) : "";
      tensor.decay = parameter && state.getDecay();
      if (MaskType mask = keptBy(state)) {
        tensor.mask = text(state->getAttrOfType<FlatSymbolRefAttr>(keptByAttributeName).getValue());
        tensor.wholeShape.assign(mask.getShape().begin(), mask.getShape().end());
      }
      SLUICE_ASSIGN_OR_RETURN(tensor.place, operand(state.getType(), state->getAttr("plan.slot")));
      states[tensor.name] = tensor.place;
      if (parameter)
        parameters[{tensor.place.arena, tensor.place.offset}] = tensor.name;
      result.tensors.push_back(std::move(tensor));
    }
    return absl::OkStatus();
  }

  static std::vector<DimensionBinding> bindings(DictionaryAttr attribute) {
    std::vector<DimensionBinding> list;
    if (attribute)
      for (NamedAttribute entry : attribute)
        if (auto value = dyn_cast<IntegerAttr>(entry.getValue()))
          list.push_back({text(entry.getName().getValue()), value.getInt()});
    return list;
  }

  Status addNamed(std::vector<NamedOperand> &list, ArrayAttr names, TypeRange types, ArrayAttr slots) {
    for (auto [name, type, slot] : llvm::zip(names, types, slots)) {
      NamedOperand named;
      named.name = text(cast<StringAttr>(name).getValue());
      SLUICE_ASSIGN_OR_RETURN(named.operand, operand(type, slot));
      list.push_back(std::move(named));
    }
    return absl::OkStatus();
  }

  Status addEntry(GraphOp graph) {
    auto inputs = graph->getAttrOfType<ArrayAttr>("plan.input_slots");
    auto outputs = graph->getAttrOfType<ArrayAttr>("plan.output_slots");
    if (!inputs || !outputs)
      return failure("graph '", text(graph.getSymName()), "' is not planned; run the plan phase first");
    EntryPoint entry;
    entry.name = text(graph.getSymName());
    entry.bindings = bindings(graph->getAttrOfType<DictionaryAttr>("sluice.fixed_bindings"));
    auto end = cast<ReturnOp>(graph.getBlock()->getTerminator());
    SLUICE_RETURN_IF_ERROR(
        addNamed(entry.inputs, graph.getInputNames(), graph.getBlock()->getArgumentTypes(), inputs));
    SLUICE_RETURN_IF_ERROR(addNamed(entry.outputs, end.getNames(), end.getOperandTypes(), outputs));
    for (plan::CommandOp op : graph.getBlock()->getOps<plan::CommandOp>()) {
      SLUICE_ASSIGN_OR_RETURN(Command command, describe(op));
      entry.commands.push_back(std::move(command));
      auto flops = op->getAttrOfType<StringAttr>("plan.flops");
      entry.flops.push_back(flops ? text(flops.getValue()) : "0");
    }
    result.entries.push_back(std::move(entry));
    return absl::OkStatus();
  }

  StatusOr<Command> describe(plan::CommandOp op) {
    Command command;
    command.kind = text(op.getKind());
    if (OriginAttr origin = originOf(op))
      command.origin = text(origin.getPath());
    for (auto [type, slot] : llvm::zip(op.getInputs().getTypes(), op.getInputSlots())) {
      SLUICE_ASSIGN_OR_RETURN(Operand place, operand(type, slot));
      command.inputs.push_back(std::move(place));
    }
    for (auto [type, slot] : llvm::zip(op.getResultTypes(), op.getResultSlots())) {
      SLUICE_ASSIGN_OR_RETURN(Operand place, operand(type, slot));
      command.outputs.push_back(std::move(place));
    }
    for (Attribute state : op.getStates())
      command.outputs.push_back(states.at(text(cast<FlatSymbolRefAttr>(state).getValue())));
    for (NamedAttribute setting : op.getSettings()) {
      std::string name = text(setting.getName().getValue());
      if (auto integer = dyn_cast<IntegerAttr>(setting.getValue()))
        command.attributes.push_back(
            {name, static_cast<int64_t>(integer.getType().isInteger(1) ? integer.getValue().getZExtValue()
                                                                       : integer.getValue().getSExtValue())});
      else if (auto number = dyn_cast<FloatAttr>(setting.getValue()))
        command.attributes.push_back({name, number.getValueAsDouble()});
      else if (auto string = dyn_cast<StringAttr>(setting.getValue()))
        command.attributes.push_back({name, text(string.getValue())});
      else
        return failure("command ", command.kind, " of '", command.origin, "': setting '", name,
                       "' is neither a number nor a text");
    }
    command.dependencies.assign(op.getDependencies().begin(), op.getDependencies().end());
    addDerivedState(command);
    return command;
  }

  /// A product by a parameter reads a packed copy of it.
  void addDerivedState(const Command &command) {
    if (command.integerOr("parameter_b", 0) != 1 || command.inputs.size() < 2)
      return;
    auto parameter = parameters.find({command.inputs[1].arena, command.inputs[1].offset});
    if (parameter != parameters.end() && packed.insert(parameter->second).second)
      result.derived.push_back({parameter->second + ".packed", parameter->second, "packed"});
  }

  ModuleOp module;
  ExecutableDescription result;
  std::map<std::string, int> arenas;
  std::map<std::string, Operand> states;
  std::map<std::pair<int, uint64_t>, std::string> parameters;
  std::set<std::string> packed;
};

} // namespace

StatusOr<ExecutableDescription> describePlan(ModuleOp planned) {
  return Describer(planned).run();
}

} // namespace sluice
