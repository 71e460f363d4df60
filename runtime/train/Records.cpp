#include "runtime/train/Records.h"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

using nlohmann::ordered_json;

ordered_json recordAt(const char *kind, const RecordPlace &place) {
  return {{"kind", kind},
          {"step", place.step},
          {"tokens", place.tokens},
          {"seen_tokens", place.seenTokens},
          {"unique_tokens", place.uniqueTokens},
          {"epoch", place.epoch}};
}

RoutingStatistics statisticsOf(const RoutingSum &layer) {
  size_t experts = layer.sums.size() - 4;
  RoutingStatistics statistics;
  statistics.counts.assign(layer.sums.begin(), layer.sums.begin() + experts);
  statistics.entropySum = layer.sums[experts];
  statistics.logZSum = layer.sums[experts + 1];
  statistics.maxProbabilitySum = layer.sums[experts + 2];
  statistics.tokens = layer.sums[experts + 3];
  return statistics;
}

} // namespace

uint64_t metricsOffset(const std::string &text, int64_t step) {
  uint64_t offset = 0;
  size_t start = 0;
  for (size_t end; (end = text.find('\n', start)) != std::string::npos; start = end + 1) {
    auto record =
        nlohmann::json::parse(text.begin() + start, text.begin() + end, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object())
      break;
    auto found = record.find("step");
    if (found != record.end() && found->is_number_integer() && found->get<int64_t>() > step)
      break;
    offset = end + 1; // the header has no step
  }
  return offset;
}

ordered_json trainRecord(const RecordPlace &place, const StepSums &sums, double learningRate,
                         double tokensPerSecond,
                         const std::vector<std::pair<std::string, double>> &lossWeights, CollapseWatch &watch,
                         std::vector<std::string> &warnings) {
  ordered_json record = recordAt("train", place);
  record["steps"] = sums.steps;
  record["loss"] = sums.loss();
  double objective = sums.loss();
  ordered_json auxiliary = ordered_json::object();
  for (const AuxiliarySum &loss : sums.auxiliary) {
    double value = sums.auxiliaryLoss(loss);
    auxiliary[loss.name] = value;
    for (const auto &[name, weight] : lossWeights)
      if (name == loss.name)
        objective += weight * value;
  }
  record["auxiliary"] = auxiliary;
  record["objective"] = objective;
  record["learning_rate"] = learningRate;
  record["gradient_norm"] = sums.gradientNorm;
  record["tokens_per_second"] = tokensPerSecond;
  if (sums.routing.empty())
    return record;
  ordered_json layers = ordered_json::object();
  for (const RoutingSum &layer : sums.routing) {
    RoutingStatistics statistics = statisticsOf(layer);
    double assignments = 0;
    for (double count : statistics.counts)
      assignments += count;
    // Every counted token makes top-k assignments, so their ratio is k.
    int experts = static_cast<int>(statistics.counts.size());
    int topK = statistics.tokens > 0 ? static_cast<int>(std::lround(assignments / statistics.tokens)) : 1;
    topK = std::clamp(topK, 1, experts);
    RoutingDiagnostics diagnostics = diagnoseRouting(statistics, topK);
    layers[layer.layer] = toJson(diagnostics);
    if (watch.observe(layer.layer, diagnostics.collapsed, place.warmup))
      warnings.push_back(collapseMessage(layer.layer, diagnostics, topK));
  }
  record["routing"] = layers;
  if (!warnings.empty())
    record["warnings"] = warnings;
  return record;
}

ordered_json evaluationRecord(const RecordPlace &place, const Evaluation &evaluation, bool scheduled) {
  ordered_json record = recordAt("evaluation", place);
  record["scheduled"] = scheduled;
  record["nats_per_token"] = evaluation.natsPerToken();
  record["bits_per_byte"] = evaluation.bitsPerByte();
  record["bits_per_character"] = evaluation.bitsPerCharacter();
  record["evaluation_tokens"] = evaluation.targets;
  record["evaluation_bytes"] = evaluation.bytes;
  record["evaluation_characters"] = evaluation.characters;
  return record;
}

ordered_json maskRecord(const RecordPlace &place, const MaskChange &change) {
  ordered_json record = recordAt("masks", place);
  record["share"] = change.share;
  record["removed"] = change.removed;
  for (const MaskChange::Layer &layer : change.layers)
    record["layers"][layer.name] = {{"kept", layer.kept},
                                    {"grown", layer.grown},
                                    {"dropped", layer.dropped},
                                    {"products", layer.products},
                                    {"skipping", layer.skipping}};
  return record;
}

std::string evaluationLine(const Evaluation &evaluation) {
  return absl::StrFormat("validation %.4f nats/token, %.4f bits/byte, %.4f bits/character (%.0f tokens)",
                         evaluation.natsPerToken(), evaluation.bitsPerByte(), evaluation.bitsPerCharacter(),
                         evaluation.targets);
}

} // namespace sluice
