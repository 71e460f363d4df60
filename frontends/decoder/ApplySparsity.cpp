#include "dialects/sluice/Notation.h"
#include "frontends/decoder/Sparsity.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;

namespace sluice {
namespace {

/// A parameter of the graph and every full name that it has: one an iteration.
struct Source {
  std::vector<std::string> names;
  ExpertsOp experts;
};
using Sources = llvm::MapVector<ParamOp, Source>;

/// What masks are made for. Tables, norms and routers are read by other ops, or decide who computes.
constexpr llvm::StringLiteral maskedRoles[] = {"attention", "mlp", "expert", "shared"};

Sources collectSources(ModuleOp module) {
  Sources sources;
  for (auto graph : module.getOps<GraphOp>())
    visitOps(*graph.getBlock(), [&](Operation *op, const OpPlace &place) {
      auto param = dyn_cast<ParamOp>(op);
      if (!param || !llvm::is_contained(maskedRoles, param.getRole()) ||
          cast<RankedTensorType>(param.getValue().getType()).getRank() < 2)
        return;
      Source &source = sources[param];
      source.names.push_back(joinPath(place.path, param.getName()));
      source.experts = place.experts;
    });
  return sources;
}

/// Marks the parameters that `target` means.
Status markTarget(const std::string &key, const std::string &target, const Sources &sources,
                  llvm::DenseSet<Operation *> &wanted) {
  const llvm::StringRef role = target == "experts" ? llvm::StringRef("expert") : llvm::StringRef(target);
  llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(target);
  if (!glob) {
    llvm::consumeError(glob.takeError());
    return usageError(key, ".targets: '", target, "' is not a pattern of names");
  }
  bool any = false;
  for (const auto &[param, source] : sources) {
    const auto matches = static_cast<size_t>(
        llvm::count_if(source.names, [&](const std::string &name) { return glob->match(name); }));
    const bool byRole = ParamOp(param).getRole() == role;
    if (!byRole && matches != 0 && matches != source.names.size())
      return usageError(key, ".targets: '", target, "' matches ", matches, " of the ", source.names.size(),
                        " layers of ", source.names.front(),
                        ", which share one description; expected all or none, e.g. layers.*");
    if (byRole || matches != 0)
      wanted.insert(ParamOp(param)), any = true;
  }
  if (any)
    return absl::OkStatus();
  std::string names;
  for (const auto &[param, source] : sources)
    names += concat(names.empty() ? "" : ", ", source.names.front());
  return usageError(key, ".targets: '", target,
                    "' matches no weight of attention, MLP or experts; expected a "
                    "role (attention, mlp, experts, shared) or a name with *, as of: ",
                    names);
}

/// `pattern` as numbers: blocks of rows x columns, or n of m; zeros where it is the other kind.
struct PatternSizes {
  int64_t rows = 0, columns = 0, n = 0, m = 0;

  explicit PatternSizes(llvm::StringRef text) {
    if (text.consume_front("block:")) {
      text.split('x').first.getAsInteger(10, rows);
      text.split('x').second.getAsInteger(10, columns);
    } else if (text.contains(':')) {
      text.split(':').first.getAsInteger(10, n);
      text.split(':').second.getAsInteger(10, m);
    }
  }
};

/// What the pattern makes of `kept` weights of a matrix.
StatusOr<int64_t> keptInPattern(const std::string &key, const std::string &name, const MaskedLayer &layer,
                                int64_t kept, const PatternSizes &sizes) {
  if (sizes.m > 0) {
    if (layer.in % sizes.m != 0)
      return usageError(key, ".pattern: ", sizes.n, " of ", sizes.m, " needs a multiple of ", sizes.m,
                        " inputs, found ", layer.in, " at ", name);
    return layer.out * layer.in / sizes.m * sizes.n;
  }
  if (sizes.rows > 0) {
    if (layer.out % sizes.rows != 0 || layer.in % sizes.columns != 0)
      return usageError(key, ".pattern: blocks of ", sizes.rows, " x ", sizes.columns,
                        " must divide every target, found ", layer.out, " x ", layer.in, " at ", name);
    const int64_t block = sizes.rows * sizes.columns;
    return (kept + block - 1) / block * block;
  }
  return kept;
}

/// Gives every product of `param` a mask.
StatusOr<ParamMaskOp> insertMask(const std::string &key, ParamOp param, const std::string &name,
                                 MaskType type) {
  for (OpOperand &use : param.getValue().getUses()) {
    auto linear = dyn_cast<LinearOp>(use.getOwner());
    if (!linear || use.get() != linear.getWeight() || use.get() == linear.getX())
      return usageError(key, ".targets: ", name, " is read by ",
                        use.getOwner()->getName().getStringRef().str(),
                        ", which takes no mask; only weights of sluice.linear can be masked");
  }
  OpBuilder builder(param->getContext());
  builder.setInsertionPointAfter(param);
  auto mask = ParamMaskOp::create(builder, param.getLoc(), type, param.getNameAttr());
  for (Operation *user : param.getValue().getUsers())
    cast<LinearOp>(user).getMaskMutable().assign(mask.getMask());
  return mask;
}

/// The parameters of a rule's targets, in the order of the graph.
StatusOr<std::vector<ParamOp>> targetsOf(const Sparsity &rule, const Sources &sources) {
  llvm::DenseSet<Operation *> wanted;
  for (const std::string &target : rule.targets)
    SLUICE_RETURN_IF_ERROR(markTarget(rule.key, target, sources, wanted));
  std::vector<ParamOp> params;
  for (const auto &[key, source] : sources) {
    ParamOp param = key;
    if (!wanted.contains(param))
      continue;
    if (cast<RankedTensorType>(param.getValue().getType()).getRank() != 2)
      return usageError(rule.key, ".targets: ", source.names.front(),
                        " is stacked over experts in one tensor, which takes no mask yet");
    params.push_back(param);
  }
  return params;
}

MaskedLayer layerOf(ParamOp param, const Source &source) {
  auto shape = cast<RankedTensorType>(param.getValue().getType()).getShape();
  ExpertsOp experts = source.experts;
  const int64_t count = experts ? cast<RoutingType>(experts.getRouting().getType()).getExperts() : 1;
  return {shape[0], shape[1], count * static_cast<int64_t>(source.names.size()),
          param.getRole() == "attention"};
}

} // namespace

Status applySparsity(ModuleOp module, const std::vector<Sparsity> &rules) {
  const Sources sources = collectSources(module);
  llvm::DenseMap<Operation *, size_t> ruleOf;
  for (size_t number = 0; number < rules.size(); ++number) {
    const Sparsity &rule = rules[number];
    SLUICE_ASSIGN_OR_RETURN(const std::vector<ParamOp> params, targetsOf(rule, sources));
    std::vector<MaskedLayer> layers;
    for (ParamOp param : params) {
      const Source &source = sources.find(param)->second;
      if (auto [other, isNew] = ruleOf.try_emplace(param, number); !isNew)
        return usageError(rule.key, ".targets: ", source.names.front(), " is masked by ",
                          rules[other->second].key, " already; expected rules that share no weight");
      layers.push_back(layerOf(param, source));
    }
    SLUICE_ASSIGN_OR_RETURN(std::vector<int64_t> kept, keptWeights(rule, layers));
    const PatternSizes sizes(rule.pattern);
    for (size_t k = 0; k < params.size(); ++k) {
      const std::string &name = sources.find(params[k])->second.names.front();
      const int64_t size = layers[k].out * layers[k].in;
      SLUICE_ASSIGN_OR_RETURN(const int64_t target, keptInPattern(rule.key, name, layers[k], kept[k], sizes));
      if (target == size)
        continue; // keeps everything: no mask
      auto type =
          MaskType::get(module.getContext(), {layers[k].out, layers[k].in}, rule.gradual ? size : target,
                        StringAttr::get(module.getContext(), rule.pattern));
      SLUICE_ASSIGN_OR_RETURN(ParamMaskOp mask, insertMask(rule.key, params[k], name, type));
      OpBuilder builder(module.getContext());
      if (target != type.getKept())
        mask->setAttr("sluice.target", builder.getI64IntegerAttr(target));
      if (rules.size() > 1)
        mask->setAttr("sluice.rule", builder.getI64IntegerAttr(static_cast<int64_t>(number)));
    }
  }
  return absl::OkStatus();
}

} // namespace sluice
