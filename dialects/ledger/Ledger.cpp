#include "dialects/ledger/Ledger.h"

#include "dialects/sluice/Notation.h"
#include "dialects/sluice/ops/Place.h"

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

namespace {

/// Ops that only hold, name or hand on other ops' work.
bool isStructural(Operation *op) {
  return isa<GraphOp, ReturnOp, YieldOp, ParamOp, StateOp, ReadOp, WriteOp, RepeatOp, ScopeOp, ExpertsOp,
             KernelOp, AuxiliaryLossOp, ObserveOp>(op) ||
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
  std::vector<ParameterInfo> parameters = parametersOf(module);
  bool tied = llvm::none_of(parameters, [](const ParameterInfo &info) { return info.kind == "head"; });
  for (const ParameterInfo &info : parameters) {
    auto size = static_cast<Count>(info.type.getNumElements());
    Count active =
        info.experts > 0 ? size / static_cast<Count>(info.experts) * static_cast<Count>(info.active) : size;
    bool isInputTable = info.kind == "embedding", isTable = isInputTable || info.kind == "head";
    counts.total += size;
    counts.nonzero += size;
    counts.active += active;
    counts.activeWithoutInputTable += isInputTable && !tied ? 0 : active;
    counts.nonEmbedding += isTable ? 0 : size;
    counts.activeNonEmbedding += isTable ? 0 : active;
    counts.byRole[info.kind] += size;
    counts
        .byPath[info.name.substr(0, info.name.rfind('.') == std::string::npos ? 0 : info.name.rfind('.'))] +=
        size;
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
    if (isExpertsOwnLinear(op, place.experts)) {
      auto routing = cast<RoutingType>(ExpertsOp(place.experts).getRouting().getType());
      counts.dense = dividedBy(counts.dense.times(static_cast<Count>(routing.getExperts())),
                               static_cast<Count>(routing.getTopK()));
    }
    LedgerRow &row = rowFor(op, place, graph);
    ++row.executions;
    row.counts += counts;
    row.fullAttention += isa<AttentionOp, AttentionGradientOp>(op) ? counts.dense : counts.ideal;
    ledger.hasBackward |= row.direction == "backward";
  }

  LedgerRow &rowFor(Operation *op, const OpPlace &place, llvm::StringRef graph) {
    std::string name = op->getName().stripDialect().str();
    auto [known, isNew] =
        index.try_emplace({graph.str(), place.path, place.role, place.direction, name}, ledger.rows.size());
    if (isNew)
      ledger.rows.push_back(
          {graph.str(), place.path, place.layer, place.role, place.direction, name, 0, {}, {}});
    return ledger.rows[known->second];
  }

  Ledger &ledger;
  std::map<std::array<std::string, 5>, size_t> index;
  std::map<std::string, Uncounted> uncounted;
  std::string unbound;
};

bool isRoutingOp(llvm::StringRef op) {
  return llvm::is_contained({"route", "route_gradient", "dispatch", "combine", "combine_gate_gradient",
                             "switch_balance", "switch_balance_gradient", "router_z", "router_z_gradient",
                             "routing_statistics"},
                            op);
}

} // namespace

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
  return sum([](const LedgerRow &row) { return row.direction == "forward" || row.direction == "backward"; });
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
  return ledger;
}

} // namespace sluice
