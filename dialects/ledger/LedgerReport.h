// Reports of a ledger: the tree, tables by op, layer, module and role, two models side by side, JSON and CSV.
#pragma once

#include "dialects/ledger/LedgerView.h"

namespace sluice {

/// What one figure is of: a micro-batch as it is counted, or a token, a sequence, a step, a run. Counts are
/// scaled when they are printed, so sums stay exact; a quotient that is no integer is rounded to the nearest.
struct LedgerScale {
  std::string unit = "micro-batch";
  Count multiply = 1, divide = 1;                   // of forward, backward, recompute
  Count optimizerMultiply = 1, optimizerDivide = 1; // of the optimizer, which runs once a step

  Count training(Count count) const { return rounded(count, multiply, divide); }
  Count optimizer(Count count) const { return rounded(count, optimizerMultiply, optimizerDivide); }
  static Count rounded(Count count, Count multiply, Count divide) {
    return (count * multiply + divide / 2) / divide;
  }
};

/// Measured rates of a machine.
struct MachineRates {
  double flops = 0;     // FLOP/s, products
  double bandwidth = 0; // bytes/s, main memory
};
/// Lower bound of the time of an entry: the longer of its executed operations at peak rate and its bytes at
/// full bandwidth.
double rooflineSeconds(const LedgerEntry &entry, const MachineRates &machine);
/// The bound of the whole: each op at each place by itself, added up.
double rooflineSeconds(const Ledger &ledger, const MachineRates &machine);

struct ReportOptions {
  LedgerScale scale;
  std::optional<LedgerKey> by; // a flat table instead of the tree
  int depth = 3; // levels of the tree below the model; a table by module shows modules up to this depth
  std::optional<MachineRates> machine;
};

/// The report for people, at most 100 columns.
std::string ledgerText(const Ledger &ledger, const ReportOptions &options);
/// Two models side by side; lines that differ are marked with their quotient.
std::string compareText(const std::string &nameA, const Ledger &a, const std::string &nameB, const Ledger &b,
                        const ReportOptions &optionsA, const ReportOptions &optionsB);
/// JSON at a scale (docs/ledger.schema.json).
std::string ledgerJson(const Ledger &ledger, const LedgerScale &scale);
/// One line a row, with a header line; every class of every reading.
std::string ledgerCsv(const Ledger &ledger, const LedgerScale &scale);

} // namespace sluice
