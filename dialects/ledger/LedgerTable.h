// Parts of the reports that LedgerText.cpp puts together.
#pragma once

#include "dialects/ledger/LedgerReport.h"

namespace sluice {

/// The conventions in one line, then what a figure is of.
std::string reportHeader(const Ledger &ledger, const ReportOptions &options);
/// One line an entry of `options.by`, then their total.
std::string tableText(const Ledger &ledger, const ReportOptions &options);

} // namespace sluice
