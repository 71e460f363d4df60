// `sluice stats --convention`: the conventions of papers on a model's own ledger.
#pragma once

#include "dialects/ledger/conventions/Convention.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace sluice::cli {

/// Tokens of the bound batch and of one sequence.
struct BoundTokens {
  Count tokens = 0, sequence = 0;
};

/// From the ids [batch, seq] that the training graph reads. Error (usage): it reads none.
StatusOr<BoundTokens> boundTokensOf(mlir::ModuleOp module, const Ledger &ledger);

/// What `stats --convention NAME` prints: `text` for people, `json` for programs. `all`: every convention.
struct ConventionStats {
  std::string text, json;
};
StatusOr<ConventionStats> conventionStats(mlir::ModuleOp module, const Ledger &ledger,
                                          const std::string &name);

} // namespace sluice::cli
