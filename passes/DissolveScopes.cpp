#include "dialects/sluice/Dims.h"
#include "dialects/sluice/Notation.h"
#include "passes/Passes.h"
#include "passes/Rewriting.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace sluice {
#define GEN_PASS_DEF_DISSOLVESCOPES
#include "passes/Passes.h.inc"

namespace {

/// Where we are in the nest of scopes.
struct Place {
  std::string path;
  int64_t layer = -1;
  std::string role;

  std::string nameOf(StringRef name) const {
    return path.empty() || name.empty() ? path + name.str() : path + "." + name.str();
  }
  OriginAttr origin(MLIRContext *context, StringRef forRole) const {
    return OriginAttr::get(context, path, layer, forRole, "forward");
  }
};

class Dissolver {
public:
  explicit Dissolver(ModuleOp module) : module(module), builder(module.getContext()) {}

  LogicalResult run(GraphOp graph) {
    ownParameters.clear();
    if (failed(dissolve(*graph.getBlock(), Place())))
      return failure();
    return checkMaskedUses(graph);
  }

private:
  /// Weights that a mask drops are zero, so an op that reads them without the mask would mean something else.
  LogicalResult checkMaskedUses(GraphOp graph) {
    llvm::StringMap<Value> masks;
    for (ReadOp read : graph.getBlock()->getOps<ReadOp>())
      if (StateOp state = states.lookup(read.getState()); state && state.getRole() == "mask")
        masks[state.getParameter()] = read.getValue();
    for (ReadOp read : graph.getBlock()->getOps<ReadOp>())
      if (Value mask = masks.lookup(read.getState()))
        for (Operation *user : read.getValue().getUsers())
          if (!llvm::is_contained(user->getOperands(), mask))
            return user->emitError() << user->getName() << " reads the parameter '" << read.getState()
                                     << "' without its mask; give it the mask too";
    return success();
  }

  LogicalResult dissolve(Block &block, const Place &place) {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (auto scope = dyn_cast<ScopeOp>(op)) {
        if (failed(dissolveScope(scope, place)))
          return failure();
      } else if (auto param = dyn_cast<ParamOp>(op)) {
        if (failed(replaceParam(param, place)))
          return failure();
      } else if (auto source = dyn_cast<ParamMaskOp>(op)) {
        if (failed(replaceMask(source, place)))
          return failure();
      } else {
        setOrigin(&op, place.origin(op.getContext(), place.role));
      }
    }
    return success();
  }

  LogicalResult dissolveScope(ScopeOp scope, const Place &outer) {
    Place inner = outer;
    inner.path = outer.nameOf(scope.getName());
    if (auto layer = scope->getAttrOfType<IntegerAttr>("sluice.layer"))
      inner.layer = layer.getInt();
    if (scope.getRole())
      inner.role = scope.getRole()->str();
    Block &body = scope.getBody().front();
    if (failed(dissolve(body, inner)))
      return failure();
    Operation *yield = body.getTerminator();
    scope->replaceAllUsesWith(yield->getOperands());
    yield->erase();
    scope->getBlock()->getOperations().splice(scope->getIterator(), body.getOperations());
    scope.erase();
    return success();
  }

  LogicalResult replaceParam(ParamOp param, const Place &place) {
    std::string name = place.nameOf(param.getName());
    if (!ownParameters.insert(name).second)
      return param.emitError() << "two parameters are called '" << name
                               << "'; names must differ within a scope";
    StateOp &state = states[name];
    if (!state)
      state = createState(param, name, place);
    else if (state.getType() != param.getValue().getType() || state.getInit() != param.getInit())
      return param.emitError() << "parameter '" << name << "' differs between entry points";
    replaceByRead(
        param, name,
        place.origin(builder.getContext(), place.role.empty() ? param.getRole() : StringRef(place.role)));
    return success();
  }

  void replaceByRead(Operation *source, StringRef name, OriginAttr origin) {
    builder.setInsertionPoint(source);
    auto read = ReadOp::create(builder, source->getLoc(), source->getResult(0).getType(),
                               FlatSymbolRefAttr::get(builder.getContext(), name));
    setOrigin(read, origin);
    source->getResult(0).replaceAllUsesWith(read.getValue());
    source->erase();
  }

  /// A mask belongs to a parameter of its scope, which comes first.
  LogicalResult replaceMask(ParamMaskOp source, const Place &place) {
    std::string parameter = place.nameOf(source.getParameter()), name = maskName(parameter);
    StateOp weights = states.lookup(parameter);
    if (!weights || !ownParameters.contains(parameter))
      return source.emitError() << "the mask's parameter '" << parameter
                                << "' must stand before it in the same scope";
    MaskType type = source.getMask().getType();
    if (type.getShape() != cast<RankedTensorType>(weights.getType()).getShape())
      return source.emitError() << "the mask of '" << parameter << "' must have its shape "
                                << shapeText(weights.getType()) << ", found " << type;
    if (!ownParameters.insert(name).second)
      return source.emitError() << "parameter '" << parameter << "' has two masks";
    OriginAttr origin = originOf(weights);
    StateOp &state = states[name];
    if (!state) {
      builder.setInsertionPointAfter(weights);
      state = cast<StateOp>(builder.clone(*weights));
      state.setSymName(name);
      state.setType(type);
      state.setInitAttr(RandomMaskAttr::get(builder.getContext()));
      state.setRole("mask");
      state.setParameter(parameter);
      state.setCheckpoint(maskName(weights.getCheckpoint()));
      state.setDecay(false);
      for (StringRef attribute : {"sluice.target", "sluice.rule"})
        if (Attribute value = source->getAttr(attribute))
          state->setAttr(attribute, value);
    } else if (state.getType() != type) {
      return source.emitError() << "the mask of '" << parameter << "' differs between entry points";
    }
    replaceByRead(source, name, withDirection(origin, "forward"));
    return success();
  }

  StateOp createState(ParamOp param, const std::string &name, const Place &place) {
    auto type = cast<RankedTensorType>(param.getValue().getType());
    auto count = [&](StringRef attribute) {
      auto value = param->getAttrOfType<IntegerAttr>(attribute);
      return value ? value.getInt() : int64_t(0);
    };
    std::string checkpoint = param.getCheckpoint().value_or(name).str();
    if (size_t at = checkpoint.find("{layer}"); at != std::string::npos)
      checkpoint.replace(at, 7, std::to_string(place.layer));
    // States stand before all graphs, in order of their first use.
    builder.setInsertionPoint(*module.getOps<GraphOp>().begin());
    auto state =
        StateOp::create(builder, param.getLoc(), builder.getStringAttr(name), TypeAttr::get(type),
                        param.getInitAttr(), builder.getStringAttr("parameter"), builder.getStringAttr(name),
                        param.getRoleAttr(), builder.getStringAttr(checkpoint),
                        builder.getBoolAttr(param.getDecay().value_or(type.getRank() >= 2)),
                        builder.getI64IntegerAttr(count("sluice.experts")),
                        builder.getI64IntegerAttr(count("sluice.active")));
    setOrigin(state, place.origin(builder.getContext(), param.getRole()));
    return state;
  }

  ModuleOp module;
  OpBuilder builder;
  llvm::StringMap<StateOp> states;
  llvm::StringSet<> ownParameters; // of the graph at hand
};

struct DissolveScopes : impl::DissolveScopesBase<DissolveScopes> {
  void runOnOperation() override {
    Dissolver dissolver(getOperation());
    for (GraphOp graph : llvm::to_vector(getOperation().getOps<GraphOp>()))
      if (failed(dissolver.run(graph)))
        return signalPassFailure();
  }
};

} // namespace
} // namespace sluice
