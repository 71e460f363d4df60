#include "frontends/cli/ConventionStats.h"

namespace sluice::cli {

StatusOr<ConventionStats> conventionStats(const Ledger &ledger, const std::string &name) {
  if (ledger.batch == 0 || ledger.sequence == 0)
    return usageError("--convention: expected a graph that reads token ids [batch, seq], found none in '@",
                      ledger.trainingGraph, "'");
  SLUICE_ASSIGN_OR_RETURN(ConventionQuantities quantities,
                          quantitiesOf(ledger, ledger.batch * ledger.sequence, ledger.sequence));
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
