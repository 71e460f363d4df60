// Two models side by side.
#include "dialects/ledger/LedgerFormat.h"
#include "dialects/ledger/LedgerTable.h"

#include "absl/strings/str_format.h"

#include <algorithm>

namespace sluice {
namespace {

constexpr size_t labelWidth = 32, width = 27;

struct Comparison {
  std::string text;

  void head(const std::string &title, const std::string &a, const std::string &b) {
    text += leftColumn(title, labelWidth) + rightColumn(a, width) + rightColumn(b, width) + "\n";
  }

  /// `brief`: how a number is shortened.
  void line(const std::string &label, Count a, Count b, std::string (*brief)(Count)) {
    std::string mark;
    if (a != b)
      mark = a == 0 || b == 0 ? "  only here"
                              : absl::StrFormat("  x %.4g", static_cast<double>(b) / static_cast<double>(a));
    text += leftColumn("  " + label, labelWidth) + bothForms(a, brief(a), width) +
            bothForms(b, brief(b), width) + mark + "\n";
  }
};

/// A path or file name that fits into its column: its end says more than its beginning.
std::string fitted(const std::string &name) {
  return name.size() < width ? name : ".." + name.substr(name.size() - (width - 4));
}

} // namespace

std::string compareText(const std::string &nameA, const Ledger &a, const std::string &nameB, const Ledger &b,
                        const ReportOptions &optionsA, const ReportOptions &optionsB) {
  Comparison comparison;
  comparison.text = std::string(ledgerConventionLine) + "\nper " + optionsA.scale.unit +
                    "; x: B over A, where they differ\n\n";
  comparison.head("parameters", fitted(nameA), fitted(nameB));
  const ParameterCounts &pa = a.parameters, &pb = b.parameters;
  for (auto [label, member] :
       {std::pair{"total", &ParameterCounts::total}, std::pair{"active", &ParameterCounts::active},
        std::pair{"active, no input table", &ParameterCounts::activeWithoutInputTable},
        std::pair{"active, no tables", &ParameterCounts::activeNonEmbedding},
        std::pair{"nonzero", &ParameterCounts::nonzero}})
    comparison.line(label, pa.*member, pb.*member, shortCount);
  for (const std::string &role : parameterRoles) {
    auto of = [&](const ParameterCounts &counts) {
      auto found = counts.byRole.find(role);
      return found == counts.byRole.end() ? Count(0) : found->second;
    };
    if (of(pa) != 0 || of(pb) != 0)
      comparison.line("  " + role, of(pa), of(pb), shortCount);
  }
  comparison.text += "\n";
  comparison.head("FLOP in contractions", "", "");
  auto flops = [&](const std::string &label, auto figure) {
    comparison.line(label, optionsA.scale.training(figure(a)), optionsB.scale.training(figure(b)), shortUnit);
  };
  flops("forward", [](const Ledger &l) { return l.forward().counts.ideal.contraction; });
  flops("backward", [](const Ledger &l) { return l.backward().counts.ideal.contraction; });
  flops("training", [](const Ledger &l) { return l.training().counts.ideal.contraction; });
  flops("  executed", [](const Ledger &l) { return l.training().executed.contraction; });
  flops("  dense", [](const Ledger &l) { return l.training().counts.dense.contraction; });
  flops("  attention in full", [](const Ledger &l) { return l.training().fullAttention.contraction; });
  flops("routing (part of these)", [](const Ledger &l) { return l.routing().counts.ideal.contraction; });
  flops("other FLOP", [](const Ledger &l) { return l.training().counts.ideal.elementwise(); });
  comparison.line("optimizer, a step", optionsA.scale.optimizer(a.optimizer().counts.ideal.arithmetic()),
                  optionsB.scale.optimizer(b.optimizer().counts.ideal.arithmetic()), shortUnit);
  comparison.text += "\n";
  comparison.head("training FLOP by role", "", "");
  std::vector<LedgerEntry> entriesA = ledgerTable(a, LedgerKey::Role),
                           entriesB = ledgerTable(b, LedgerKey::Role);
  auto find = [](const std::vector<LedgerEntry> &entries, const std::string &name) {
    for (const LedgerEntry &entry : entries)
      if (entry.name == name)
        return entry.contractions();
    return Count(0);
  };
  std::vector<std::string> names;
  for (const std::vector<LedgerEntry> *entries : {&entriesA, &entriesB})
    for (const LedgerEntry &entry : *entries)
      if (std::find(names.begin(), names.end(), entry.name) == names.end())
        names.push_back(entry.name);
  for (const std::string &name : names)
    if (find(entriesA, name) != 0 || find(entriesB, name) != 0)
      comparison.line(name, optionsA.scale.training(find(entriesA, name)),
                      optionsB.scale.training(find(entriesB, name)), shortUnit);
  return comparison.text;
}

} // namespace sluice
