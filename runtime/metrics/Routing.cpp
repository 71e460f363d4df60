#include "runtime/metrics/Routing.h"

#include "runtime/support/Status.h"

#include <algorithm>
#include <cmath>

namespace sluice {

RoutingStatistics RoutingStatistics::fromDevice(std::span<const float> values) {
  RoutingStatistics statistics;
  if (values.size() < 4)
    return statistics;
  const size_t experts = values.size() - 4;
  statistics.counts.assign(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(experts));
  statistics.entropySum = values[experts];
  statistics.logZSum = values[experts + 1];
  statistics.maxProbabilitySum = values[experts + 2];
  statistics.tokens = values[experts + 3];
  return statistics;
}

void RoutingStatistics::add(const RoutingStatistics &other) {
  if (counts.size() < other.counts.size())
    counts.resize(other.counts.size());
  for (size_t i = 0; i < other.counts.size(); ++i)
    counts[i] += other.counts[i];
  entropySum += other.entropySum;
  logZSum += other.logZSum;
  maxProbabilitySum += other.maxProbabilitySum;
  tokens += other.tokens;
}

RoutingDiagnostics diagnoseRouting(const RoutingStatistics &statistics, int topK) {
  RoutingDiagnostics result;
  const std::vector<double> &counts = statistics.counts;
  result.load.assign(counts.size(), 0);
  double total = 0;
  for (double count : counts)
    total += count;
  if (!(total > 0))
    return result;

  const double experts = static_cast<double>(counts.size()), mean = total / experts;
  const double logExperts = std::log(experts);
  double squares = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    result.load[i] = counts[i] / total;
    squares += (counts[i] - mean) * (counts[i] - mean);
    if (counts[i] > 0)
      result.loadEntropy -= result.load[i] * std::log(result.load[i]);
    else
      ++result.deadExperts;
  }
  const auto busiest = std::max_element(counts.begin(), counts.end());
  result.mostLoadedExpert = static_cast<int>(busiest - counts.begin());
  result.mostLoadedFraction = *busiest / total;
  result.coefficientOfVariation = std::sqrt(squares / experts) / mean;
  result.maxViolation = *busiest / mean - 1;
  result.normalizedLoadEntropy = counts.size() > 1 ? result.loadEntropy / logExperts : 1;
  if (statistics.tokens > 0) {
    result.routerEntropy = statistics.entropySum / statistics.tokens;
    result.normalizedRouterEntropy = counts.size() > 1 ? result.routerEntropy / logExperts : 1;
    result.meanLogZ = statistics.logZSum / statistics.tokens;
    result.meanMaxProbability = statistics.maxProbabilitySum / statistics.tokens;
  }
  // Compared without the division by K, whose rounding could tip a case that sits on the limit.
  result.collapsed = topK < static_cast<int>(counts.size()) && *busiest * topK >= collapseShare * total;
  return result;
}

bool CollapseWatch::observe(const std::string &layer, bool collapsed, bool warmup) {
  int &intervals = collapsedIntervals[layer];
  intervals = collapsed && !warmup ? intervals + 1 : 0;
  return intervals >= collapseIntervals;
}

nlohmann::ordered_json toJson(const RoutingDiagnostics &diagnostics) {
  nlohmann::ordered_json json;
  json["load"] = diagnostics.load;
  json["most_loaded_fraction"] = diagnostics.mostLoadedFraction;
  json["most_loaded_expert"] = diagnostics.mostLoadedExpert;
  json["coefficient_of_variation"] = diagnostics.coefficientOfVariation;
  json["load_entropy"] = diagnostics.loadEntropy;
  json["normalized_load_entropy"] = diagnostics.normalizedLoadEntropy;
  json["router_entropy"] = diagnostics.routerEntropy;
  json["normalized_router_entropy"] = diagnostics.normalizedRouterEntropy;
  json["log_z"] = diagnostics.meanLogZ;
  json["max_probability"] = diagnostics.meanMaxProbability;
  json["max_violation"] = diagnostics.maxViolation;
  json["dead_experts"] = diagnostics.deadExperts;
  json["collapsed"] = diagnostics.collapsed;
  return json;
}

std::string collapseMessage(std::string_view layer, const RoutingDiagnostics &diagnostics, int topK) {
  return concat(layer, ": the router collapsed: expert ", diagnostics.mostLoadedExpert, " takes ",
                absl::StrFormat("%.1f%% of the assignments (uniform %.1f%%, at most %.1f%% with top-%d)",
                                100 * diagnostics.mostLoadedFraction,
                                100.0 / static_cast<double>(std::max<size_t>(1, diagnostics.load.size())),
                                100.0 / topK, topK));
}

} // namespace sluice
