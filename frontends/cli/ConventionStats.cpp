#include "frontends/cli/ConventionStats.h"

#include "dialects/sluice/Sluice.h"

namespace sluice::cli {

StatusOr<BoundTokens> boundTokensOf(mlir::ModuleOp module, const Ledger &ledger) {
  auto graph = module.lookupSymbol<GraphOp>(ledger.trainingGraph);
  if (graph)
    for (mlir::BlockArgument argument : graph.getBlock()->getArguments()) {
      auto type = llvm::dyn_cast<mlir::RankedTensorType>(argument.getType());
      if (type && type.hasStaticShape() && type.getRank() == 2 && type.getElementType().isInteger(32))
        return BoundTokens{static_cast<Count>(type.getNumElements()), static_cast<Count>(type.getDimSize(1))};
    }
  return usageError("--convention: expected a graph that reads token ids [batch, seq], found none in '@",
                    ledger.trainingGraph, "'");
}

StatusOr<ConventionStats> conventionStats(mlir::ModuleOp module, const Ledger &ledger,
                                          const std::string &name) {
  SLUICE_ASSIGN_OR_RETURN(BoundTokens bound, boundTokensOf(module, ledger));
  SLUICE_ASSIGN_OR_RETURN(ConventionQuantities quantities,
                          quantitiesOf(ledger, bound.tokens, bound.sequence));
  std::vector<const Convention *> chosen;
  if (name == "all") {
    for (const Convention &convention : conventions())
      chosen.push_back(&convention);
    return ConventionStats{allConventionsText(quantities), conventionsJson(chosen, quantities)};
  }
  SLUICE_ASSIGN_OR_RETURN(const Convention *convention, findConvention(name));
  return ConventionStats{conventionText(*convention, quantities), conventionsJson({convention}, quantities)};
}

} // namespace sluice::cli
