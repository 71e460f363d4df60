// Tables by op, layer, module or role.
#include "dialects/ledger/LedgerTable.h"

#include "dialects/ledger/LedgerFormat.h"

#include "absl/strings/str_format.h"

namespace sluice {
namespace {

constexpr size_t runsWidth = 8, width = 9;

size_t nameWidthOf(const ReportOptions &options) {
  return options.machine ? 20 : 30;
}

std::string line(const LedgerEntry &entry, Count whole, const ReportOptions &options) {
  const LedgerScale &scale = options.scale;
  auto flops = [&](Count count) {
    return rightColumn(count == 0 ? "-" : shortUnit(scale.training(count)), width);
  };
  const Count bytes = entry.bytes();
  std::string intensity = "-";
  if (bytes != 0) {
    const double quotient = static_cast<double>(entry.executed()) / static_cast<double>(bytes);
    intensity = quotient < 1e5 ? absl::StrFormat("%.1f", quotient) : absl::StrFormat("%.2g", quotient);
  }
  const Count executed = entry.forward.executed.contraction + entry.backward.executed.contraction +
                         entry.recompute.executed.contraction;
  std::string text =
      leftColumn(entry.name, nameWidthOf(options)) + rightColumn(groupedDigits(entry.executions), runsWidth) +
      flops(entry.forward.counts.ideal.contraction) + flops(entry.backward.counts.ideal.contraction) +
      flops(executed) + flops(entry.elementwise()) + flops(bytes) + rightColumn(intensity, width);
  if (options.machine)
    text += rightColumn(secondsText(rooflineSeconds(entry, *options.machine)), width + 1);
  return text + rightColumn(percent(entry.contractions(), whole), 8) + "\n";
}

/// Modules deeper than `depth` joined with the one that holds them.
std::vector<LedgerEntry> joined(std::vector<LedgerEntry> entries, int depth) {
  std::vector<LedgerEntry> result;
  std::map<std::string, size_t> index;
  for (LedgerEntry &entry : entries) {
    size_t end = 0;
    for (int level = 0; level < depth && end != std::string::npos; ++level)
      end = entry.name.find('.', end == 0 ? 0 : end + 1);
    entry.name = entry.name.substr(0, end);
    auto [known, isNew] = index.try_emplace(entry.name, result.size());
    if (isNew)
      result.push_back(std::move(entry));
    else
      result[known->second] += entry;
  }
  return result;
}

} // namespace

std::string tableText(const Ledger &ledger, const ReportOptions &options) {
  static constexpr const char *names[] = {"op", "layer", "module", "role"};
  std::vector<LedgerEntry> entries = ledgerTable(ledger, *options.by);
  if (options.by == LedgerKey::Module)
    entries = joined(std::move(entries), options.depth);
  LedgerEntry total;
  for (const LedgerEntry &entry : entries)
    total += entry;
  total.name = "total";
  std::string text =
      leftColumn(names[static_cast<int>(*options.by)], nameWidthOf(options)) + rightColumn("runs", runsWidth);
  for (const char *head : {"fwd FLOP", "bwd FLOP", "executed", "other", "bytes", "FLOP/B"})
    text += rightColumn(head, width);
  text += (options.machine ? rightColumn("time >=", width + 1) : "") + rightColumn("share", 8) + "\n";
  for (const LedgerEntry &entry : entries)
    text += line(entry, total.contractions(), options);
  return text + line(total, total.contractions(), options) +
         "\nfwd, bwd: ideal contractions; executed: with recompute, padding and whole blocks; other: "
         "elementwise\n";
}

} // namespace sluice
