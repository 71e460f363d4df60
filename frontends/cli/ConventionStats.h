// `sluice stats --convention`: the conventions of papers on a model's own ledger.
#pragma once

#include "dialects/ledger/conventions/Convention.h"

#include <string>

namespace sluice::cli {

/// What `stats --convention NAME` prints: `text` for people, `json` for programs. `all`: every convention.
struct ConventionStats {
  std::string text, json;
};
/// From the ledger of a differentiated graph or of an executable, whose ideal counts are the same. Error
/// (usage): an unknown name; a ledger that knows no batch of token ids, or no layers and head.
StatusOr<ConventionStats> conventionStats(const Ledger &ledger, const std::string &name);

} // namespace sluice::cli
