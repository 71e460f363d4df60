#include "dialects/ledger/Ledger.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace sluice {
namespace {

llvm::json::Object classesOf(const ClassCounts &counts) {
  return llvm::json::Object{{"contraction", toDecimal(counts.contraction)},
                            {"add", toDecimal(counts.add)},
                            {"multiply", toDecimal(counts.multiply)},
                            {"divide", toDecimal(counts.divide)},
                            {"transcendental", toDecimal(counts.transcendental)},
                            {"compare", toDecimal(counts.compare)},
                            {"index", toDecimal(counts.index)}};
}

/// `ideal`, `dense` and `full_attention` are contractions; `classes` has every class of the ideal count.
llvm::json::Object sumOf(const LedgerSum &sum) {
  return llvm::json::Object{{"ideal", toDecimal(sum.counts.ideal.contraction)},
                            {"dense", toDecimal(sum.counts.dense.contraction)},
                            {"full_attention", toDecimal(sum.fullAttention.contraction)},
                            {"classes", classesOf(sum.counts.ideal)}};
}

/// One table: rows of the training graph grouped by a key, in order of first appearance.
llvm::json::Array tableOf(const Ledger &ledger, const std::function<std::string(const LedgerRow &)> &key) {
  std::vector<std::string> order;
  std::map<std::string, std::map<std::string, LedgerSum>> groups;
  std::map<std::string, int64_t> executions;
  for (const LedgerRow &row : ledger.rows) {
    if (row.graph != ledger.trainingGraph)
      continue;
    std::string name = key(row);
    if (groups.find(name) == groups.end())
      order.push_back(name);
    groups[name][row.direction] += row;
    executions[name] += row.executions;
  }
  llvm::json::Array table;
  for (const std::string &name : order) {
    llvm::json::Object entry{{"name", name}, {"executions", std::to_string(executions[name])}};
    for (const auto &[direction, sum] : groups[name])
      entry[direction] = sumOf(sum);
    table.push_back(std::move(entry));
  }
  return table;
}

llvm::json::Object byName(const std::map<std::string, Count> &counts) {
  llvm::json::Object object;
  for (const auto &[name, count] : counts)
    object[name] = toDecimal(count);
  return object;
}

} // namespace

std::string ledgerJson(const Ledger &ledger) {
  const ParameterCounts &parameters = ledger.parameters;
  llvm::json::Object flops{{"forward", sumOf(ledger.forward())}, {"routing", sumOf(ledger.routing())}};
  if (ledger.hasBackward) {
    flops["backward"] = sumOf(ledger.backward());
    flops["training"] = sumOf(ledger.training());
    flops["recompute"] = sumOf(ledger.recompute());
    flops["optimizer"] = sumOf(ledger.optimizer());
  }
  llvm::json::Object root{
      {"convention", ledgerConvention},
      {"parameters",
       llvm::json::Object{{"total", toDecimal(parameters.total)},
                          {"active", toDecimal(parameters.active)},
                          {"active_without_input_table", toDecimal(parameters.activeWithoutInputTable)},
                          {"active_non_embedding", toDecimal(parameters.activeNonEmbedding)},
                          {"non_embedding", toDecimal(parameters.nonEmbedding)},
                          {"nonzero", toDecimal(parameters.nonzero)},
                          {"by_role", byName(parameters.byRole)},
                          {"by_path", byName(parameters.byPath)}}},
      {"flops", std::move(flops)},
      {"by_op", tableOf(ledger, [](const LedgerRow &row) { return row.op; })},
      {"by_layer", tableOf(ledger, [](const LedgerRow &row) { return std::to_string(row.layer); })},
      {"by_path", tableOf(ledger, [](const LedgerRow &row) { return row.path; })},
      {"by_role", tableOf(ledger, [](const LedgerRow &row) { return row.role; })}};
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << llvm::formatv("{0:2}", llvm::json::Value(std::move(root))) << "\n";
  return text;
}

} // namespace sluice
