// What `sluice stats` reads from --per and --machine.
#pragma once

#include "dialects/ledger/LedgerReport.h"

namespace sluice::cli {

/// `token`, `sequence`, `step`, or `run=2Btok`: a number of tokens (300M, 2B, 1.5T, with or without `tok`). A
/// run's forward and backward are those of its tokens, its optimizer runs once a step (the last one may be
/// short). Empty: a micro-batch. Errors (usage): another word; sizes that the ledger does not know.
StatusOr<LedgerScale> parseScale(const std::string &text, const Ledger &ledger);

/// `peak=500GFLOP/s,bandwidth=40GB/s`: both, with a prefix k, M, G, T or P and the unit FLOP/s or B/s. Error
/// (usage): anything else.
StatusOr<MachineRates> parseMachine(const std::string &text);

} // namespace sluice::cli
