// The default report: a header, the tree of modules, the totals.
#include "dialects/ledger/LedgerFormat.h"
#include "dialects/ledger/LedgerReport.h"
#include "dialects/ledger/LedgerTable.h"

#include "absl/strings/str_format.h"

#include <algorithm>

namespace sluice {
namespace {

constexpr size_t nameWidth = 26, countWidth = 10, flopsWidth = 11, barWidth = 10;

std::string moduleLine(const ModuleNode &node, size_t level, Count whole, const LedgerScale &scale) {
  std::string name = std::string(2 * level, ' ') + node.name;
  if (node.instances > 1)
    name += " x" + std::to_string(node.instances);
  auto flops = [&](Count count) {
    return rightColumn(count == 0 ? "-" : shortUnit(scale.training(count)), flopsWidth);
  };
  auto parameters = [&](Count count) {
    return rightColumn(count == 0 ? "-" : shortCount(count), countWidth);
  };
  const Count part = node.total.contractions();
  return leftColumn(name, nameWidth) + parameters(node.total.parameters) + parameters(node.total.active) +
         flops(node.total.forward.counts.ideal.contraction) +
         flops(node.total.backward.counts.ideal.contraction) + flops(node.total.elementwise()) + "  " +
         percentBar(part, whole, barWidth) + rightColumn(percent(part, whole), 7) + "\n";
}

/// The lines of a node's children; a node that has one kind of child only (`layers` and `*`) shares its line.
void childLines(const ModuleNode &node, size_t level, int depth, Count whole, const LedgerScale &scale,
                std::string &text) {
  if (depth <= 0)
    return;
  for (const ModuleNode &child : node.children) {
    ModuleNode shown = child;
    while (shown.children.size() == 1 && shown.children.front().name == "*") {
      ModuleNode inner = shown.children.front();
      inner.name = shown.name;
      shown = std::move(inner);
    }
    text += moduleLine(shown, level, whole, scale);
    childLines(shown, level + 1, depth - 1, whole, scale, text);
  }
}

std::string treeText(const Ledger &ledger, const ReportOptions &options) {
  const ModuleNode root = moduleTree(ledger, /*mergeLayers=*/true);
  std::string text = leftColumn("module", nameWidth) + rightColumn("params", countWidth) +
                     rightColumn("active", countWidth) + rightColumn("fwd FLOP", flopsWidth) +
                     rightColumn("bwd FLOP", flopsWidth) + rightColumn("other FLOP", flopsWidth) +
                     "  share\n";
  const Count whole = root.total.contractions();
  text += moduleLine(root, 0, whole, options.scale);
  childLines(root, 1, options.depth, whole, options.scale, text);
  return text;
}

constexpr size_t labelWidth = 25, totalWidth = 25;

std::string totalsLine(const std::string &label, std::initializer_list<std::string> cells) {
  std::string text = leftColumn(label, labelWidth);
  for (const std::string &cell : cells)
    text += rightColumn(cell, totalWidth);
  return text + "\n";
}

std::string parameterLines(const ParameterCounts &all) {
  const ParameterCounts without = all.withoutRouter();
  const bool routed = all.router() != 0;
  std::string text =
      totalsLine("parameters", {"with router", routed ? "without router" : "", routed ? "router" : ""});
  auto line = [&](const std::string &label, Count ParameterCounts::*member) {
    auto cell = [&](Count count) { return bothForms(count, shortCount(count), totalWidth); };
    text += totalsLine("  " + label, {cell(all.*member), routed ? cell(without.*member) : "",
                                      routed && label == "total" ? cell(all.router()) : ""});
  };
  line("total", &ParameterCounts::total);
  line("active", &ParameterCounts::active);
  line("active, no input table", &ParameterCounts::activeWithoutInputTable);
  line("active, no tables", &ParameterCounts::activeNonEmbedding);
  line("nonzero", &ParameterCounts::nonzero);
  return text;
}

std::string flopsLines(const Ledger &ledger, const LedgerScale &scale) {
  std::string text = totalsLine("FLOP in contractions", {"ideal", "executed", "dense"});
  auto line = [&](const std::string &label, Count ideal, Count executed, Count dense,
                  bool optimizer = false) {
    auto cell = [&](Count count) {
      const Count scaled = optimizer ? scale.optimizer(count) : scale.training(count);
      return bothForms(scaled, shortUnit(scaled), totalWidth);
    };
    text += totalsLine("  " + label, {cell(ideal), cell(executed), cell(dense)});
  };
  auto contractions = [&](const std::string &label, const LedgerSum &sum) {
    line(label, sum.counts.ideal.contraction, sum.executed.contraction, sum.counts.dense.contraction);
  };
  contractions("forward", ledger.forward());
  if (ledger.hasBackward) {
    contractions("backward", ledger.backward());
    contractions("training", ledger.training());
    contractions("recompute (apart)", ledger.recompute());
  }
  if (LedgerSum routing = ledger.routing(); routing.counts.ideal.contraction != 0)
    contractions("routing (part of these)", routing);
  const LedgerSum sum = ledger.hasBackward ? ledger.training() : ledger.forward();
  line("attention in full", sum.fullAttention.contraction, sum.executed.contraction,
       sum.counts.dense.contraction);
  line("other FLOP", sum.counts.ideal.elementwise(), sum.executed.elementwise(),
       sum.counts.dense.elementwise());
  if (ledger.hasBackward) {
    const LedgerSum optimizer = ledger.optimizer();
    line("optimizer, a step", optimizer.counts.ideal.arithmetic(), optimizer.executed.arithmetic(),
         optimizer.counts.dense.arithmetic(), true);
    if (LedgerSum update = ledger.maskUpdate(); update.counts.ideal.arithmetic() != 0)
      line("mask update, each", update.counts.ideal.arithmetic(), update.executed.arithmetic(),
           update.counts.dense.arithmetic(), true);
  }
  return text;
}

} // namespace

double rooflineSeconds(const LedgerEntry &entry, const MachineRates &machine) {
  return std::max(static_cast<double>(entry.executed()) / machine.flops,
                  static_cast<double>(entry.bytes()) / machine.bandwidth);
}

double rooflineSeconds(const Ledger &ledger, const MachineRates &machine) {
  double seconds = 0;
  for (const LedgerRow &row : ledger.rows)
    if (row.graph == ledger.trainingGraph) {
      LedgerEntry entry;
      entry.add(row);
      seconds += rooflineSeconds(entry, machine);
    }
  return seconds;
}

std::string reportHeader(const Ledger &ledger, const ReportOptions &options) {
  std::string text = std::string(ledgerConventionLine) + "\n";
  std::string sizes;
  if (ledger.batch != 0)
    sizes = "; micro-batch " + groupedDigits(ledger.batch) + " x " + groupedDigits(ledger.sequence) + " = " +
            groupedDigits(ledger.batch * ledger.sequence) + " tokens";
  return text + "per " + options.scale.unit + sizes + "\n\n";
}

static std::string machineLines(const Ledger &ledger, const MachineRates &machine) {
  LedgerEntry all;
  for (const LedgerRow &row : ledger.rows)
    if (row.graph == ledger.trainingGraph)
      all.add(row);
  const double executed = static_cast<double>(all.executed()), bytes = static_cast<double>(all.bytes());
  return absl::StrFormat("\nroofline of a micro-batch: at least %s, at %sFLOP/s and %sB/s\n"
                         "  %sB moved, %.4g FLOP a byte; the machine's ridge is at %.4g\n",
                         secondsText(rooflineSeconds(ledger, machine)),
                         shortUnit(static_cast<uint64_t>(machine.flops)),
                         shortUnit(static_cast<uint64_t>(machine.bandwidth)), shortUnit(all.bytes()),
                         bytes > 0 ? executed / bytes : 0.0, machine.flops / machine.bandwidth);
}

std::string ledgerText(const Ledger &ledger) {
  return ledgerText(ledger, ReportOptions());
}

std::string ledgerText(const Ledger &ledger, const ReportOptions &options) {
  std::string text = reportHeader(ledger, options);
  if (options.by)
    text += tableText(ledger, options);
  else
    text += treeText(ledger, options) + "\n" + parameterLines(ledger.parameters) + "\n" +
            flopsLines(ledger, options.scale);
  if (options.machine)
    text += machineLines(ledger, *options.machine);
  return text;
}

} // namespace sluice
