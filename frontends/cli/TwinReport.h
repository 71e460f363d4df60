// What `sluice twin` prints: candidates with their residuals, and the reference beside the best of them.
#pragma once

#include "dialects/ledger/Ledger.h"
#include "frontends/twin/Budget.h"
#include "frontends/twin/TwinSearch.h"

#include <optional>
#include <string>
#include <vector>

namespace sluice::cli {

/// One finished search.
struct TwinReport {
  std::string reference; // path
  std::string match;     // active, total, nonzero, flops
  std::string shared;    // what stays
  std::string kind;      // "dense", "4 experts, ..."
  std::string sizes;     // "batch=8,seq=256"
  Count target = 0, tolerance = 0;
  std::vector<TwinVariable> variables;
  TwinAnswer answer; // counts are the ledger's
  Ledger referenceLedger, twinLedger;
  std::optional<TokenBudget> referenceBudget, twinBudget;
};

/// The figure that `match` names: parameters, or training FLOPs of the bound batch (contractions, causal
/// exact).
Count matchedFigure(const Ledger &ledger, const std::string &match);
/// "active parameters", "training FLOPs".
std::string matchedName(const std::string &match);
/// "ffn 2048" or "width 320, ffn 1056".
std::string pointText(const std::vector<TwinVariable> &variables, const TwinPoint &point);

std::string twinText(const TwinReport &report);
/// {"reference", "match", "target", "tolerance", "count", "candidates": [{"sizes": {...}, "count",
/// "residual", "percent"}], "figures": {name: {"reference", "twin"}}}; counts are decimal strings.
std::string twinJson(const TwinReport &report);

} // namespace sluice::cli
