#include "dialects/ledger/conventions/Convention.h"

#include "absl/strings/str_format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace sluice {
namespace {

double quotient(Count part, Count whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// `12,617,781,248`, with its unit beside it where the digits are many.
std::string number(Count count) {
  std::string digits = groupedDigits(count);
  return digits.size() < 12 ? digits : absl::StrFormat("%s (%s)", digits, withUnit(count));
}

/// FLOPs of one token: whole, or with its fraction.
std::string perToken(Count work, Count tokens) {
  return work % tokens == 0 ? number(work / tokens)
                            : absl::StrFormat("%s + %s/%s", groupedDigits(work / tokens),
                                              toDecimal(work % tokens), toDecimal(tokens));
}

/// Figures are decimal text: whole numbers get grouped.
std::string grouped(const std::string &value) {
  Count count = 0;
  for (char digit : value) {
    if (digit < '0' || digit > '9')
      return value;
    count = count * 10 + static_cast<Count>(digit - '0');
  }
  return number(count);
}

} // namespace

std::string conventionText(const Convention &convention, const ConventionQuantities &q) {
  ConventionReport report = convention.report(q);
  std::string text = concat("convention: ", convention.name, " (", convention.source,
                            ")\n  counts: ", convention.counts, "\n  batch: ", groupedDigits(q.tokens),
                            " tokens in sequences of ", groupedDigits(q.sequence), "\n\n");
  auto line = [&](const std::string &label, const std::string &value) {
    text += absl::StrFormat("  %-38s %s\n", label, value);
  };
  line("parameters N", number(report.parameters));
  for (const ConventionFigure &figure : report.figures)
    line(figure.label, grouped(figure.value));
  line("forward FLOPs of the batch", number(report.forward));
  line("training FLOPs of the batch", number(report.training));
  line("training FLOPs of a token", perToken(report.training, q.tokens));
  line("of the exact training FLOPs", absl::StrFormat("%.4f", quotient(report.training, q.training)));
  return text;
}

std::string allConventionsText(const ConventionQuantities &q) {
  std::string text = absl::StrFormat(
      "training FLOPs of %s tokens in sequences of %s, by convention\n\n%-19s %20s %30s %8s\n",
      groupedDigits(q.tokens), groupedDigits(q.sequence), "convention", "parameters N", "training FLOPs",
      "/ exact");
  for (const Convention &convention : conventions()) {
    ConventionReport report = convention.report(q);
    text += absl::StrFormat("%-19s %20s %30s %8.4f\n", convention.name, groupedDigits(report.parameters),
                            groupedDigits(report.training), quotient(report.training, q.training));
  }
  text += "\nWhat each counts:\n";
  for (const Convention &convention : conventions())
    text += absl::StrFormat("  %-18s %s\n", convention.name, convention.counts);
  return text;
}

std::string conventionsJson(const std::vector<const Convention *> &chosen, const ConventionQuantities &q) {
  llvm::json::Array array;
  for (const Convention *convention : chosen) {
    ConventionReport report = convention->report(q);
    llvm::json::Object figures;
    for (const ConventionFigure &figure : report.figures)
      figures[figure.key] = figure.value;
    array.push_back(
        llvm::json::Object{{"convention", convention->name},
                           {"source", convention->source},
                           {"counts", convention->counts},
                           {"parameters", toDecimal(report.parameters)},
                           {"flops", llvm::json::Object{{"forward", toDecimal(report.forward)},
                                                        {"training", toDecimal(report.training)}}},
                           {"figures", std::move(figures)}});
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << llvm::formatv("{0:2}", llvm::json::Value(llvm::json::Object{{"tokens", toDecimal(q.tokens)},
                                                                        {"sequence", toDecimal(q.sequence)},
                                                                        {"conventions", std::move(array)}}))
         << "\n";
  return text;
}

} // namespace sluice
