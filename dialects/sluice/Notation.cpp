#include "dialects/sluice/Notation.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace sluice {
namespace {

/// `{layer}` replaced by the iteration.
std::string fillLayer(llvm::StringRef name, int64_t layer) {
  std::string text = name.str();
  constexpr llvm::StringLiteral placeholder = "{layer}";
  for (size_t at = text.find(placeholder); at != std::string::npos; at = text.find(placeholder))
    text.replace(at, placeholder.size(), std::to_string(layer));
  return text;
}

ParameterInfo parameterOf(ParamOp param, const OpPlace &place) {
  ParameterInfo info;
  info.name = joinPath(place.path, param.getName());
  info.type = cast<RankedTensorType>(param.getValue().getType());
  info.init = param.getInit();
  info.kind = param.getRole().str();
  info.checkpoint = param.getCheckpoint() ? fillLayer(*param.getCheckpoint(), place.layer) : info.name;
  info.decay = param.getDecay().value_or(info.type.getRank() >= 2);
  if (place.experts) {
    auto routing = cast<RoutingType>(ExpertsOp(place.experts).getRouting().getType());
    info.experts = routing.getExperts();
    info.active = routing.getTopK();
    llvm::SmallVector<int64_t> shape{info.experts};
    llvm::append_range(shape, info.type.getShape());
    info.type = RankedTensorType::get(shape, info.type.getElementType());
  } else if (auto experts = param->getAttrOfType<IntegerAttr>("sluice.experts")) {
    info.experts = experts.getInt();
    info.active = param->getAttrOfType<IntegerAttr>("sluice.active").getInt();
  }
  return info;
}

ParameterInfo parameterOf(StateOp state) {
  return {state.getSymName().str(),
          wholeType(state),
          state.getInit(),
          state.getKind().str(),
          state.getCheckpoint().str(),
          state.getDecay(),
          static_cast<int64_t>(state.getExperts()),
          static_cast<int64_t>(state.getActive())};
}

} // namespace

MaskType keptBy(StateOp state) {
  auto name = state->getAttrOfType<FlatSymbolRefAttr>(keptByAttributeName);
  auto mask = name ? SymbolTable::lookupNearestSymbolFrom<StateOp>(state, name.getAttr()) : StateOp();
  return mask ? dyn_cast<MaskType>(mask.getType()) : MaskType();
}

RankedTensorType wholeType(StateOp state) {
  auto type = cast<RankedTensorType>(state.getType());
  MaskType mask = keptBy(state);
  return mask ? RankedTensorType::get(mask.getShape(), type.getElementType()) : type;
}

std::string maskName(llvm::StringRef parameter) {
  return (parameter + ".mask").str();
}

std::string joinPath(llvm::StringRef path, llvm::StringRef name) {
  if (path.empty() || name.empty())
    return (path + name).str();
  return (path + "." + name).str();
}

void visitOps(Block &block, llvm::function_ref<void(Operation *, const OpPlace &)> visit, OpPlace place) {
  for (Operation &op : block) {
    OpPlace own = place;
    if (OriginAttr origin = originOf(&op)) {
      own.path = origin.getPath().str();
      own.layer = origin.getLayer();
      own.role = origin.getRole().str();
      own.direction = origin.getDirection().str();
    }
    visit(&op, own);
    if (auto repeat = dyn_cast<RepeatOp>(op)) {
      const int64_t first = static_cast<int64_t>(repeat.getFirst());
      for (int64_t i = first; i < first + static_cast<int64_t>(repeat.getTimes()); ++i) {
        OpPlace inner = own;
        inner.path = joinPath(joinPath(own.path, repeat.getName()), std::to_string(i));
        inner.layer = i;
        visitOps(repeat.getBody().front(), visit, inner);
      }
      continue;
    }
    OpPlace inner = own;
    if (auto scope = dyn_cast<ScopeOp>(op)) {
      inner.path = joinPath(own.path, scope.getName());
      if (scope.getRole())
        inner.role = scope.getRole()->str();
    } else if (auto experts = dyn_cast<ExpertsOp>(op)) {
      inner.experts = experts;
    } else if (isa<Countable, Evaluable>(op)) {
      continue; // the body of a map is one op's formula, not ops of the model
    }
    for (Region &region : op.getRegions())
      for (Block &body : region)
        visitOps(body, visit, inner);
  }
}

std::vector<ParameterInfo> parametersOf(ModuleOp module) {
  std::vector<ParameterInfo> parameters;
  llvm::StringMap<size_t> seen; // index in `parameters`
  auto add = [&](ParameterInfo info) {
    if (seen.try_emplace(info.name, parameters.size()).second)
      parameters.push_back(std::move(info));
  };
  auto addMask = [&](const std::string &parameter, MaskType mask) {
    if (auto found = seen.find(parameter); found != seen.end())
      parameters[found->second].mask = mask;
  };
  for (auto state : module.getOps<StateOp>()) {
    if (state.getRole() == "parameter")
      add(parameterOf(state));
    else if (state.getRole() == "mask")
      addMask(state.getParameter().str(), cast<MaskType>(state.getType()));
  }
  if (!parameters.empty())
    return parameters;
  for (auto graph : module.getOps<GraphOp>())
    visitOps(*graph.getBlock(), [&](Operation *op, const OpPlace &place) {
      if (auto param = dyn_cast<ParamOp>(op)) {
        add(parameterOf(param, place));
      } else if (auto source = dyn_cast<ParamMaskOp>(op)) {
        MaskType mask = source.getMask().getType();
        if (place.experts)
          mask =
              mask.stacked(cast<RoutingType>(ExpertsOp(place.experts).getRouting().getType()).getExperts());
        addMask(joinPath(place.path, source.getParameter()), mask);
      }
    });
  return parameters;
}

} // namespace sluice
