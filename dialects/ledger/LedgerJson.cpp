#include "dialects/ledger/LedgerReport.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace sluice {
namespace {

using llvm::json::Array;
using llvm::json::Object;

/// Writes counts of the training graph and of the optimizer at the report's scale.
class Writer {
public:
  explicit Writer(const LedgerScale &scale) : scale(scale) {}

  std::string number(Count count, bool optimizer = false) const {
    return toDecimal(optimizer ? scale.optimizer(count) : scale.training(count));
  }

  Object classes(const ClassCounts &counts, bool optimizer) const {
    Object object;
    for (const CountClass &countClass : countClasses)
      object[countClass.name] = number(counts.*countClass.member, optimizer);
    return object;
  }

  /// Only the classes that occur.
  Object present(const ClassCounts &counts, bool optimizer) const {
    Object object;
    for (const CountClass &countClass : countClasses)
      if (counts.*countClass.member != 0)
        object[countClass.name] = number(counts.*countClass.member, optimizer);
    return object;
  }

  Object sum(const LedgerSum &sum, bool optimizer = false) const {
    return Object{{"ideal", number(sum.counts.ideal.contraction, optimizer)},
                  {"executed", number(sum.executed.contraction, optimizer)},
                  {"dense", number(sum.counts.dense.contraction, optimizer)},
                  {"full_attention", number(sum.fullAttention.contraction, optimizer)},
                  {"bytes", number(sum.bytes, optimizer)},
                  {"executed_bytes", number(sum.executedBytes, optimizer)},
                  {"classes", classes(sum.counts.ideal, optimizer)},
                  {"executed_classes", classes(sum.executed, optimizer)},
                  {"dense_classes", classes(sum.counts.dense, optimizer)}};
  }

  Object row(const LedgerRow &row) const {
    const bool optimizer = row.graph == "apply";
    return Object{{"graph", row.graph},
                  {"path", row.path},
                  {"layer", row.layer},
                  {"role", row.role},
                  {"direction", row.direction},
                  {"op", row.op},
                  {"executions", number(row.executions, optimizer)},
                  {"ideal", present(row.counts.ideal, optimizer)},
                  {"executed", present(row.executed, optimizer)},
                  {"dense", present(row.counts.dense, optimizer)},
                  {"recompute", present(row.counts.recompute, optimizer)},
                  {"full_attention", present(row.fullAttention, optimizer)},
                  {"bytes", number(row.bytes, optimizer)},
                  {"executed_bytes", number(row.executedBytes, optimizer)}};
  }

private:
  const LedgerScale &scale;
};

Object byName(const std::map<std::string, Count> &counts) {
  Object object;
  for (const auto &[name, count] : counts)
    object[name] = toDecimal(count);
  return object;
}

Object totalsOf(const ParameterCounts &counts) {
  return Object{{"total", toDecimal(counts.total)},
                {"active", toDecimal(counts.active)},
                {"active_without_input_table", toDecimal(counts.activeWithoutInputTable)},
                {"active_non_embedding", toDecimal(counts.activeNonEmbedding)},
                {"non_embedding", toDecimal(counts.nonEmbedding)},
                {"nonzero", toDecimal(counts.nonzero)}};
}

} // namespace

std::string ledgerJson(const Ledger &ledger) {
  return ledgerJson(ledger, LedgerScale());
}

std::string ledgerJson(const Ledger &ledger, const LedgerScale &scale) {
  const Writer writer(scale);
  Object parameters = totalsOf(ledger.parameters);
  parameters["without_router"] = totalsOf(ledger.parameters.withoutRouter());
  parameters["by_role"] = byName(ledger.parameters.byRole);
  parameters["active_by_role"] = byName(ledger.parameters.activeByRole);
  parameters["by_path"] = byName(ledger.parameters.byPath);
  parameters["active_by_path"] = byName(ledger.parameters.activeByPath);
  Object flops{{"forward", writer.sum(ledger.forward())},
               {"routing", writer.sum(ledger.routing())},
               {"mask_update", writer.sum(ledger.maskUpdate())}};
  if (ledger.hasBackward) {
    flops["backward"] = writer.sum(ledger.backward());
    flops["training"] = writer.sum(ledger.training());
    flops["recompute"] = writer.sum(ledger.recompute());
    flops["optimizer"] = writer.sum(ledger.optimizer(), true);
  }
  Array rows;
  for (const LedgerRow &row : ledger.rows)
    rows.push_back(writer.row(row));
  Object root{{"schema", 1},
              {"convention", ledgerConvention},
              {"per", scale.unit},
              {"sizes", Object{{"batch", toDecimal(ledger.batch)},
                               {"sequence", toDecimal(ledger.sequence)},
                               {"step_tokens", toDecimal(ledger.stepTokens)}}},
              {"training_graph", ledger.trainingGraph},
              {"parameters", std::move(parameters)},
              {"flops", std::move(flops)},
              {"rows", std::move(rows)}};
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << llvm::formatv("{0:1}", llvm::json::Value(std::move(root))) << "\n";
  return text;
}

std::string ledgerCsv(const Ledger &ledger, const LedgerScale &scale) {
  const Writer writer(scale);
  std::string text = "graph,path,layer,role,direction,op,executions";
  for (const char *reading : {"ideal", "executed", "dense", "recompute"})
    for (const CountClass &countClass : countClasses)
      text += std::string(",") + reading + "_" + countClass.name;
  text += ",full_attention,bytes,executed_bytes\n";
  for (const LedgerRow &row : ledger.rows) {
    const bool optimizer = row.graph == "apply";
    text += row.graph + "," + row.path + "," + std::to_string(row.layer) + "," + row.role + "," +
            row.direction + "," + row.op + "," + writer.number(row.executions, optimizer);
    for (const ClassCounts *counts :
         {&row.counts.ideal, &row.executed, &row.counts.dense, &row.counts.recompute})
      for (const CountClass &countClass : countClasses)
        text += "," + writer.number(counts->*countClass.member, optimizer);
    for (Count count : {row.fullAttention.contraction, row.bytes, row.executedBytes})
      text += "," + writer.number(count, optimizer);
    text += "\n";
  }
  return text;
}

} // namespace sluice
