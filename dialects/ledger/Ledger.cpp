#include "dialects/ledger/Ledger.h"

#include "dialects/ledger/Executed.h"
#include "dialects/ledger/Traffic.h"
#include "dialects/sluice/Notation.h"
#include "dialects/sluice/ops/Place.h"
#include "runtime/abi/Tiles.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <array>
#include <set>

using namespace mlir;

namespace sluice {

const char *const ledgerConvention =
    "unit: FLOP (1 multiply-add = 2) | attention: causal exact | head: counted | lookup: 0 | "
    "norms, softmax, activations: other classes | experts: ideal top-k (dense: all experts) | "
    "masks: kept weights (dense: all) | backward: from the graph | recompute: apart | optimizer: apart | "
    "parameters: every storage once";
const char *const ledgerConventionLine =
    "multiply-add = 2 FLOP | attention causal exact | head in | lookup 0 | experts top-k | masks kept";

const std::vector<std::string> parameterRoles = {"embedding", "position", "head",   "attention", "mlp",
                                                 "expert",    "shared",   "router", "norm",      "bias"};

namespace {

/// Ops that only hold, name or hand on other ops' work.
bool isStructural(Operation *op) {
  return isa<GraphOp, ReturnOp, YieldOp, ParamOp, ParamMaskOp, StateOp, ReadOp, WriteOp, RepeatOp, ScopeOp,
             ExpertsOp, KernelOp, AuxiliaryLossOp, ObserveOp>(op) ||
         op->getName().getDialectNamespace() == "plan";
}

ClassCounts dividedBy(const ClassCounts &counts, Count divisor) {
  return {counts.contraction / divisor,    counts.add / divisor,
          counts.multiply / divisor,       counts.divide / divisor,
          counts.transcendental / divisor, counts.compare / divisor,
          counts.index / divisor};
}

/// Before *flatten* a linear of an expert reads its own weight: all experts would be experts / top_k as much.
bool isExpertsOwnLinear(Operation *op, ExpertsOp experts) {
  auto linear = dyn_cast<LinearOp>(op);
  if (!linear || !experts)
    return false;
  auto param = linear.getWeight().getDefiningOp<ParamOp>();
  return param && experts->isProperAncestor(param);
}

ParameterCounts countParameters(ModuleOp module) {
  ParameterCounts counts;
  for (const std::string &role : parameterRoles)
    counts.byRole[role] = counts.activeByRole[role] = 0;
  std::vector<ParameterInfo> parameters = parametersOf(module);
  bool tied = llvm::none_of(parameters, [](const ParameterInfo &info) { return info.kind == "head"; });
  for (const ParameterInfo &info : parameters) {
    Count size = 1;
    for (int64_t extent : info.type.getShape())
      size *= extent;
    Count active =
        info.experts > 0 ? size / static_cast<Count>(info.experts) * static_cast<Count>(info.active) : size;
    // Learned positions are an input table too, and never the head.
    bool isPositions = info.kind == "position", isEmbedding = info.kind == "embedding";
    bool isTable = isEmbedding || isPositions || info.kind == "head";
    counts.total += size;
    counts.nonzero += info.mask ? Count(info.mask.keptWeights()) : size;
    counts.active += active;
    counts.activeWithoutInputTable += (isEmbedding && !tied) || isPositions ? 0 : active;
    counts.nonEmbedding += isTable ? 0 : size;
    counts.activeNonEmbedding += isTable ? 0 : active;
    counts.byRole[info.kind] += size;
    counts.activeByRole[info.kind] += active;
    const size_t dot = info.name.rfind('.');
    const std::string path = info.name.substr(0, dot == std::string::npos ? 0 : dot);
    counts.byPath[path] += size;
    counts.activeByPath[path] += active;
  }
  return counts;
}

/// Counts one module; collects what cannot be counted.
class Counter {
public:
  explicit Counter(Ledger &ledger) : ledger(ledger) {}

  void count(GraphOp graph) {
    llvm::StringRef name = graph.getSymName();
    visitOps(*graph.getBlock(), [&](Operation *op, const OpPlace &place) { visit(op, place, name); });
  }

  Status finish() const {
    for (const LedgerRow &row : ledger.rows)
      for (const CountClass &countClass : countClasses)
        for (const ClassCounts *counts :
             {&row.counts.ideal, &row.counts.dense, &row.counts.recompute, &row.executed})
          if ((counts->*countClass.member).isOverflow())
            return failure("the count of ", row.op, " in ", row.path.empty() ? "@" + row.graph : row.path,
                           " (", countClass.name, ") does not fit into 128 bits; use smaller sizes");
    if (!unbound.empty())
      return usageError("counting needs numbers for all sizes, found ", unbound,
                        "; bind the names first (--bind batch=...,seq=...)");
    if (uncounted.empty())
      return absl::OkStatus();
    std::string text = "ops that cannot say what they cost (Countable):";
    for (const auto &[op, places] : uncounted) {
      text += concat("\n  ", op, ", ", places.executions, places.executions == 1 ? " time: " : " times: ");
      text += llvm::join(places.paths, ", ");
    }
    return failure(text);
  }

private:
  struct Uncounted {
    int64_t executions = 0;
    std::set<std::string> paths;
  };

  void visit(Operation *op, const OpPlace &place, llvm::StringRef graph) {
    auto countable = dyn_cast<Countable>(op);
    if (!countable) {
      if (!isStructural(op)) {
        Uncounted &entry = uncounted[op->getName().getStringRef().str()];
        ++entry.executions;
        entry.paths.insert(place.path.empty() ? "@" + graph.str() : place.path);
      }
      return;
    }
    auto isNamed = [](Type type) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      return tensor && !tensor.hasStaticShape();
    };
    if (llvm::any_of(op->getOperandTypes(), isNamed) || llvm::any_of(op->getResultTypes(), isNamed)) {
      if (unbound.empty())
        unbound = concat(op->getName().getStringRef().str(), " in ",
                         place.path.empty() ? "@" + graph.str() : place.path);
      return;
    }
    OpCounts counts = countable.count();
    ClassCounts executed = executedCounts(op, counts);
    if (isExpertsOwnLinear(op, place.experts)) {
      auto routing = cast<RoutingType>(ExpertsOp(place.experts).getRouting().getType());
      executed.contraction +=
          paddingOfProduct(executed.contraction, Count(routing.tokenCount()) * routing.getTopK(),
                           routing.getExperts(), tiles::groupedRows);
      counts.dense = dividedBy(counts.dense.times(static_cast<Count>(routing.getExperts())),
                               static_cast<Count>(routing.getTopK()));
    }
    LedgerRow &row = rowFor(op, place, graph);
    ++row.executions;
    row.counts += counts;
    row.fullAttention += isa<AttentionOp, AttentionGradientOp>(op) ? counts.dense : counts.ideal;
    row.executed += executed;
    row.bytes += bytesOf(op);
    row.executedBytes += traffic.bytesOf(op);
    ledger.hasBackward |= row.direction == "backward";
  }

  LedgerRow &rowFor(Operation *op, const OpPlace &place, llvm::StringRef graph) {
    std::string name = op->getName().stripDialect().str();
    auto [known, isNew] =
        index.try_emplace({graph.str(), place.path, place.role, place.direction, name}, ledger.rows.size());
    if (isNew)
      ledger.rows.push_back(
          {graph.str(), place.path, place.layer, place.role, place.direction, name, 0, {}, {}, {}, 0, 0});
    return ledger.rows[known->second];
  }

  Ledger &ledger;
  std::map<std::array<std::string, 5>, size_t> index;
  std::map<std::string, Uncounted> uncounted;
  std::string unbound;
  BorderTraffic traffic;
};

/// Batch and sequence from the shape of the graph's input `tokens`, the step's tokens from the training
/// section.
void readSizes(ModuleOp module, Ledger &ledger) {
  for (auto graph : module.getOps<GraphOp>()) {
    if (graph.getSymName() != ledger.trainingGraph)
      continue;
    for (auto [name, argument] : llvm::zip(graph.getInputNames(), graph.getBlock()->getArguments())) {
      auto type = dyn_cast<RankedTensorType>(argument.getType());
      if (cast<StringAttr>(name).getValue() == "tokens" && type && type.getRank() == 2 &&
          type.hasStaticShape())
        ledger.batch = type.getDimSize(0), ledger.sequence = type.getDimSize(1);
    }
  }
  if (auto training = module->getAttrOfType<DictionaryAttr>("sluice.training"))
    if (auto tokens = training.getAs<IntegerAttr>("batch_tokens"))
      ledger.stepTokens = tokens.getInt();
}

} // namespace

bool isRoutingOp(llvm::StringRef op) {
  return llvm::is_contained({"route", "route_gradient", "dispatch", "combine", "combine_gate_gradient",
                             "switch_balance", "switch_balance_gradient", "router_z", "router_z_gradient",
                             "routing_statistics"},
                            op);
}

Count ParameterCounts::router() const {
  auto found = byRole.find("router");
  return found == byRole.end() ? Count(0) : found->second;
}

ParameterCounts ParameterCounts::withoutRouter() const {
  // Every token uses the whole router, so it is as much of the active parameters as of the total.
  ParameterCounts without = *this;
  for (Count ParameterCounts::*member :
       {&ParameterCounts::total, &ParameterCounts::active, &ParameterCounts::activeWithoutInputTable,
        &ParameterCounts::activeNonEmbedding, &ParameterCounts::nonEmbedding, &ParameterCounts::nonzero})
    without.*member -= router();
  without.byRole.erase("router");
  without.activeByRole.erase("router");
  without.byPath.clear();
  without.activeByPath.clear();
  return without;
}

LedgerSum Ledger::sum(const std::function<bool(const LedgerRow &)> &wanted) const {
  LedgerSum sum;
  for (const LedgerRow &row : rows)
    if (row.graph == trainingGraph && wanted(row))
      sum += row;
  return sum;
}

LedgerSum Ledger::forward() const {
  return sum([](const LedgerRow &row) { return row.direction == "forward"; });
}
LedgerSum Ledger::backward() const {
  return sum([](const LedgerRow &row) { return row.direction == "backward"; });
}
LedgerSum Ledger::training() const {
  LedgerSum result =
      sum([](const LedgerRow &row) { return row.direction == "forward" || row.direction == "backward"; });
  result.executed += recompute().executed;
  return result;
}

LedgerSum Ledger::recompute() const {
  LedgerSum result;
  for (const LedgerRow &row : rows) {
    if (row.graph != trainingGraph)
      continue;
    // A cloned forward op is all recompute; an adjoint says how much of its work it did before.
    if (row.direction == "recompute")
      result += row;
    result.counts.ideal += row.counts.recompute;
    result.counts.dense += row.counts.recompute;
    result.fullAttention += row.counts.recompute;
    result.executed += row.counts.recompute;
  }
  return result;
}

LedgerSum Ledger::optimizer() const {
  LedgerSum result;
  for (const LedgerRow &row : rows)
    if (row.graph == "apply")
      result += row;
  return result;
}

LedgerSum Ledger::maskUpdate() const {
  LedgerSum result;
  for (const LedgerRow &row : rows)
    if (row.graph == "update_topology")
      result += row;
  return result;
}

LedgerSum Ledger::routing() const {
  return sum([](const LedgerRow &row) {
    return row.direction != "recompute" && (row.role == "router" || isRoutingOp(row.op));
  });
}

StatusOr<Ledger> makeLedger(ModuleOp module) {
  Ledger ledger;
  ledger.parameters = countParameters(module);
  Counter counter(ledger);
  llvm::StringSet<> names;
  for (auto graph : module.getOps<GraphOp>()) {
    names.insert(graph.getSymName());
    if (ledger.trainingGraph.empty())
      ledger.trainingGraph = graph.getSymName().str();
    counter.count(graph);
  }
  SLUICE_RETURN_IF_ERROR(counter.finish());
  for (const char *preferred : {"model", "accumulate"})
    if (names.contains(preferred))
      ledger.trainingGraph = preferred;
  readSizes(module, ledger);
  return ledger;
}

} // namespace sluice
