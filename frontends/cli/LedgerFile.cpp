#include "frontends/cli/LedgerFile.h"

#include <nlohmann/json.hpp>

#include <utility>

namespace sluice::cli {
namespace {

using Json = nlohmann::json;

Count countOf(const Json &json) {
  Count count = 0;
  for (char digit : json.get<std::string>())
    count = 10 * count + static_cast<Count>(digit - '0');
  return count;
}

std::map<std::string, Count> byName(const Json &json) {
  std::map<std::string, Count> counts;
  for (const auto &[name, count] : json.items())
    counts[name] = countOf(count);
  return counts;
}

/// The counts of a sum; of `dense` and `full_attention` the file holds contractions only.
void readSum(const Json &json, LedgerRow &row) {
  const Json &classes = json.at("classes");
  ClassCounts &ideal = row.counts.ideal;
  for (auto [name, count] : {std::pair{"contraction", &ideal.contraction}, std::pair{"add", &ideal.add},
                             std::pair{"multiply", &ideal.multiply}, std::pair{"divide", &ideal.divide},
                             std::pair{"transcendental", &ideal.transcendental},
                             std::pair{"compare", &ideal.compare}, std::pair{"index", &ideal.index}})
    *count = countOf(classes.at(name));
  row.counts.dense.contraction = countOf(json.at("dense"));
  row.fullAttention.contraction = countOf(json.at("full_attention"));
}

Ledger readLedger(const Json &json) {
  Ledger ledger;
  const Json &parameters = json.at("parameters"), &flops = json.at("flops");
  ledger.parameters.total = countOf(parameters.at("total"));
  ledger.parameters.active = countOf(parameters.at("active"));
  ledger.parameters.activeWithoutInputTable = countOf(parameters.at("active_without_input_table"));
  ledger.parameters.activeNonEmbedding = countOf(parameters.at("active_non_embedding"));
  ledger.parameters.nonEmbedding = countOf(parameters.at("non_embedding"));
  ledger.parameters.nonzero = countOf(parameters.at("nonzero"));
  ledger.parameters.byRole = byName(parameters.at("by_role"));
  ledger.parameters.byPath = byName(parameters.at("by_path"));
  ledger.hasBackward = flops.contains("backward");
  ledger.trainingGraph = "training";
  Count cloned = 0;
  for (const Json &entry : json.at("by_path"))
    for (const char *direction : {"forward", "backward", "recompute", "update"})
      if (entry.contains(direction)) {
        LedgerRow row;
        row.graph = ledger.trainingGraph;
        row.path = entry.at("name").get<std::string>();
        row.direction = direction;
        readSum(entry.at(direction), row);
        if (row.direction == "recompute")
          cloned += row.counts.ideal.contraction;
        ledger.rows.push_back(std::move(row));
      }
  if (ledger.hasBackward) {
    // What adjoints do again is part of no row's own count, only of the total.
    Count recompute = countOf(flops.at("recompute").at("ideal"));
    if (!ledger.rows.empty() && recompute > cloned)
      ledger.rows.front().counts.recompute.contraction = recompute - cloned;
    LedgerRow optimizer;
    optimizer.graph = "apply";
    readSum(flops.at("optimizer"), optimizer);
    ledger.rows.push_back(std::move(optimizer));
  }
  return ledger;
}

} // namespace

StatusOr<Ledger> ledgerFromJson(const std::string &json, const std::string &place) {
  try {
    return readLedger(Json::parse(json));
  } catch (const nlohmann::json::exception &error) {
    return badInputError(place, ": expected a ledger, found: ", error.what(), "; compile the model again");
  }
}

} // namespace sluice::cli
