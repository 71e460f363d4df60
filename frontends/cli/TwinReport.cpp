#include "frontends/cli/TwinReport.h"

#include "absl/strings/str_format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace sluice::cli {
namespace {

struct Figure {
  const char *key, *label;
  Count (*of)(const Ledger &ledger);
};

const Figure figures[] = {
    {"total", "total parameters", [](const Ledger &ledger) { return ledger.parameters.total; }},
    {"active", "active parameters", [](const Ledger &ledger) { return ledger.parameters.active; }},
    {"nonzero", "nonzero parameters", [](const Ledger &ledger) { return ledger.parameters.nonzero; }},
    {"forward", "forward FLOPs",
     [](const Ledger &ledger) { return ledger.forward().counts.ideal.contraction; }},
    {"flops", "training FLOPs",
     [](const Ledger &ledger) { return ledger.training().counts.ideal.contraction; }}};

} // namespace

Count matchedFigure(const Ledger &ledger, const std::string &match) {
  for (const Figure &figure : figures)
    if (match == figure.key)
      return figure.of(ledger);
  return 0;
}

std::string matchedName(const std::string &match) {
  for (const Figure &figure : figures)
    if (match == figure.key)
      return figure.label;
  return match;
}

std::string pointText(const std::vector<TwinVariable> &variables, const TwinPoint &point) {
  std::string text;
  for (size_t i = 0; i < variables.size(); ++i)
    text += concat(i == 0 ? "" : ", ", variables[i].name, " ", point[i]);
  return text;
}

std::string twinText(const TwinReport &report) {
  const TwinAnswer &answer = report.answer;
  std::string text =
      concat("twin of ", report.reference, ": ", report.kind, ", ", matchedName(report.match), " matched\n");
  text += concat("  target      ", groupedDigits(report.target), " within ", groupedDigits(report.tolerance),
                 report.match == "flops" ? concat(", for ", report.sizes) : "", "\n");
  text += concat("  the same    ", report.shared, "\n");
  std::string varied;
  for (const TwinVariable &variable : report.variables) {
    bool open = variable.most >= 1 << 20; // no bound that matters
    varied += concat(varied.empty() ? "" : ", ", variable.name,
                     open ? "" : concat(" ", variable.least, " to ", variable.most),
                     variable.step == 1 ? "" : concat(" in steps of ", variable.step));
  }
  text += concat("  varied      ", varied, "\n  candidates  ", answer.withinCount,
                 answer.withinCount > answer.within.size() ? concat("; the best ", answer.within.size()) : "",
                 "\n\n ");
  for (const TwinVariable &variable : report.variables)
    text += absl::StrFormat(" %10s", variable.name);
  text += absl::StrFormat(" %26s %22s %12s\n", matchedName(report.match), "residual", "percent");
  for (const TwinCandidate &candidate : answer.within) {
    text += " ";
    for (int64_t value : candidate.point)
      text += absl::StrFormat(" %10d", value);
    text += absl::StrFormat(" %26s %22s %12s\n", groupedDigits(candidate.count),
                            residualText(candidate.count, report.target),
                            residualPercent(candidate.count, report.target));
  }
  text += absl::StrFormat("\n  %-24s %26s %26s\n", "the best beside it", "reference", "twin");
  for (const Figure &figure : figures)
    text += absl::StrFormat("  %-24s %26s %26s %12s\n", figure.label,
                            groupedDigits(figure.of(report.referenceLedger)),
                            groupedDigits(figure.of(report.twinLedger)),
                            residualPercent(figure.of(report.twinLedger), figure.of(report.referenceLedger)));
  text += concat("  FLOPs are contractions of one batch, ", report.sizes, ", attention causal exact\n");
  if (report.referenceBudget && report.twinBudget)
    text += absl::StrFormat(
        "\n  %s tokens of the reference (%s steps) cost %s FLOPs;\n"
        "  the twin trains on %s tokens (%s steps) for as many, %+.2f ppm\n",
        groupedDigits(report.referenceBudget->tokens), groupedDigits(report.referenceBudget->steps),
        groupedDigits(report.referenceBudget->flops), groupedDigits(report.twinBudget->tokens),
        groupedDigits(report.twinBudget->steps),
        1e6 * static_cast<double>(residualOf(report.twinBudget->flops, report.referenceBudget->flops)) /
            static_cast<double>(report.referenceBudget->flops));
  return text;
}

std::string twinJson(const TwinReport &report) {
  llvm::json::Array candidates;
  for (const TwinCandidate &candidate : report.answer.within) {
    llvm::json::Object sizes;
    for (size_t i = 0; i < report.variables.size(); ++i)
      sizes[report.variables[i].name] = std::to_string(candidate.point[i]);
    std::string residual = candidate.count < report.target ? "-" : "";
    residual += toDecimal(candidate.count < report.target ? report.target - candidate.count
                                                          : candidate.count - report.target);
    candidates.push_back(llvm::json::Object{{"sizes", std::move(sizes)},
                                            {"count", toDecimal(candidate.count)},
                                            {"residual", residual},
                                            {"percent", residualPercent(candidate.count, report.target)}});
  }
  llvm::json::Object both;
  for (const Figure &figure : figures)
    both[figure.key] = llvm::json::Object{{"reference", toDecimal(figure.of(report.referenceLedger))},
                                          {"twin", toDecimal(figure.of(report.twinLedger))}};
  llvm::json::Object root{{"reference", report.reference},
                          {"match", report.match},
                          {"bindings", report.sizes},
                          {"target", toDecimal(report.target)},
                          {"tolerance", toDecimal(report.tolerance)},
                          {"count", std::to_string(report.answer.withinCount)},
                          {"candidates", std::move(candidates)},
                          {"figures", std::move(both)}};
  if (report.referenceBudget && report.twinBudget)
    root["budget"] = llvm::json::Object{{"reference_tokens", toDecimal(report.referenceBudget->tokens)},
                                        {"compute", toDecimal(report.referenceBudget->flops)},
                                        {"twin_tokens", toDecimal(report.twinBudget->tokens)},
                                        {"twin_steps", toDecimal(report.twinBudget->steps)},
                                        {"twin_compute", toDecimal(report.twinBudget->flops)}};
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << llvm::formatv("{0:2}", llvm::json::Value(std::move(root))) << "\n";
  return text;
}

} // namespace sluice::cli
