#include "frontends/cli/LedgerFile.h"

#include <nlohmann/json.hpp>

namespace sluice::cli {
namespace {

using Json = nlohmann::json;

Count countOf(const Json &json) {
  return fromDecimal(json.get<std::string>());
}

std::map<std::string, Count> byName(const Json &json) {
  std::map<std::string, Count> counts;
  for (const auto &[name, count] : json.items())
    counts[name] = countOf(count);
  return counts;
}

/// Classes that are absent are zero.
ClassCounts classesOf(const Json &json) {
  ClassCounts counts;
  for (const CountClass &countClass : countClasses)
    if (auto found = json.find(countClass.name); found != json.end())
      counts.*countClass.member = countOf(*found);
  return counts;
}

ParameterCounts readParameters(const Json &json) {
  ParameterCounts counts;
  counts.total = countOf(json.at("total"));
  counts.active = countOf(json.at("active"));
  counts.activeWithoutInputTable = countOf(json.at("active_without_input_table"));
  counts.activeNonEmbedding = countOf(json.at("active_non_embedding"));
  counts.nonEmbedding = countOf(json.at("non_embedding"));
  counts.nonzero = countOf(json.at("nonzero"));
  counts.byRole = byName(json.at("by_role"));
  counts.activeByRole = byName(json.at("active_by_role"));
  counts.byPath = byName(json.at("by_path"));
  counts.activeByPath = byName(json.at("active_by_path"));
  return counts;
}

LedgerRow readRow(const Json &json) {
  LedgerRow row;
  row.graph = json.at("graph");
  row.path = json.at("path");
  row.layer = json.at("layer");
  row.role = json.at("role");
  row.direction = json.at("direction");
  row.op = json.at("op");
  row.executions = static_cast<int64_t>(countOf(json.at("executions")));
  row.counts = {classesOf(json.at("ideal")), classesOf(json.at("dense")), classesOf(json.at("recompute"))};
  row.fullAttention = classesOf(json.at("full_attention"));
  row.executed = classesOf(json.at("executed"));
  row.bytes = countOf(json.at("bytes"));
  row.executedBytes = countOf(json.at("executed_bytes"));
  return row;
}

} // namespace

StatusOr<Ledger> ledgerFromJson(const std::string &json, const std::string &place) {
  try {
    const Json root = Json::parse(json);
    Ledger ledger;
    ledger.parameters = readParameters(root.at("parameters"));
    ledger.hasBackward = root.at("flops").contains("backward");
    ledger.trainingGraph = root.at("training_graph");
    ledger.batch = countOf(root.at("sizes").at("batch"));
    ledger.sequence = countOf(root.at("sizes").at("sequence"));
    ledger.stepTokens = countOf(root.at("sizes").at("step_tokens"));
    for (const Json &row : root.at("rows"))
      ledger.rows.push_back(readRow(row));
    return ledger;
  } catch (const nlohmann::json::exception &error) {
    return badInputError(place, ": expected a ledger, found: ", error.what(), "; compile the model again");
  }
}

} // namespace sluice::cli
